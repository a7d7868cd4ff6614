// Where the ranks of a job learn where rank 0 listens.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "collective/rendezvous/announcement.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// Where rank 0 listens, and the nonce of its announcement; 0: all ranks were told, without one.
struct Meeting {
  Meeting() = default;
  Meeting(HostPort where, const Nonce& nonce = {}) : address(std::move(where)), meeting(nonce) {}
  HostPort address;
  Nonce meeting = {};
};

// Of one rank; for one thread.
class RendezvousStore {
 public:
  // Withdraws what was announced, and tries no longer than two seconds.
  virtual ~RendezvousStore() = default;

  // Of rank 0: the others find it from now on. Once a store. ALREADY_EXISTS naming who holds the
  // place: another rank 0 of this job, or one that died less than lapse() ago; UNAVAILABLE: the
  // store does not answer; FAILED_PRECONDITION, PERMISSION_DENIED.
  virtual Status Announce(const Meeting& meeting, Time deadline) = 0;

  // Of the others: where rank 0 is. NOT_FOUND saying what is there instead: it has not announced
  // itself, or has died since; UNAVAILABLE as above: both are worth another look. PERMISSION_DENIED
  // when somebody else has announced himself.
  virtual StatusOr<Meeting> Find(Time deadline) = 0;

  // How long the place of a rank 0 that died stays taken.
  virtual Duration lapse() const { return Duration::zero(); }
  // For messages.
  virtual std::string name() const = 0;
};

// For `job`, at most 63 bytes, and its secret. Touches nothing outside.
std::unique_ptr<RendezvousStore> MakeRendezvousStore(const RendezvousUrl& url,
                                                     const std::string& job,
                                                     const std::string& secret);

// ---- The three forms ----------------------------------------------------------------------------

// Nobody has to say where rank 0 is: all were told.
std::unique_ptr<RendezvousStore> MakeKnownAddress(const HostPort& address);

// In `folder`: JOB.rank0 holds the announcement, under a lock that ends with whoever holds it, so
// that what a dead process left is known for that; JOB.lock, which stays, keeps a second rank 0
// out. The file system must have locks (fcntl), over all hosts.
std::unique_ptr<RendezvousStore> MakeFileStore(const std::string& folder, const std::string& job,
                                               const std::string& secret);

// In etcd (version 3, without TLS) the key PREFIX/JOB/rank0, under a lease of `ttl` that is kept
// alive by a thread.
std::unique_ptr<RendezvousStore> MakeEtcdStore(const HostPort& server, const std::string& prefix,
                                               const std::string& job, const std::string& secret,
                                               Duration ttl = std::chrono::seconds(5));

// A name for files and keys: what is not a letter, a digit, '-' or '_' becomes %xx.
std::string FileNameOf(const std::string& job);

}  // namespace tandem
