// A store from which the ranks of a job learn the address of rank 0.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "collective/rendezvous/announcement.h"
#include "collective/rendezvous/etcd_access.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::collective {

// The address of rank 0 and the nonce of its announcement. If the nonce is 0, the address is from
// the configuration and there is no announcement.
struct Meeting {
  Meeting() = default;
  Meeting(HostPort where, const Nonce& nonce = {}) : address(std::move(where)), meeting(nonce) {}
  HostPort address;
  Nonce meeting = {};
};

// The access of one rank to the store. Not thread-safe: for one thread.
class RendezvousStore {
 public:
  // Removes the announcement of this rank. Gives up after two seconds.
  virtual ~RendezvousStore() = default;

  // Publishes the address of rank 0; only rank 0 calls this, once. ALREADY_EXISTS: the store has
  // another rank 0 of this job. That rank 0 may have died less than lapse() ago; the message names
  // it. UNAVAILABLE: the store does not reply. FAILED_PRECONDITION: the file system supports no
  // locks. PERMISSION_DENIED: this rank cannot write to the store.
  virtual Status Announce(const Meeting& meeting, Time deadline) = 0;

  // Returns the address of rank 0; only the other ranks call this. NOT_FOUND: rank 0 has not
  // announced itself, or has died; the message says which. UNAVAILABLE: the store does not reply.
  // After these two errors a retry may help. PERMISSION_DENIED: this rank cannot read the store, or
  // the announcement is not from rank 0 of this job. FAILED_PRECONDITION: another version of Tandem
  // wrote the announcement, or the file system supports no locks.
  virtual StatusOr<Meeting> Find(Time deadline) = 0;

  // Returns how long the announcement of a dead rank 0 stays in the store.
  virtual Duration lapse() const { return Duration::zero(); }
  // Returns a name of the store for messages.
  virtual std::string name() const = 0;
};

// Makes the store for `job` (at most 63 bytes) and its secret. Accesses no files and no network.
// `access`: for a store in etcd.
std::unique_ptr<RendezvousStore> MakeRendezvousStore(const RendezvousUrl& url,
                                                     const std::string& job,
                                                     const std::string& secret,
                                                     const EtcdAccess& access = {});

// Makes a store that contains a fixed address, which all ranks know from the configuration.
std::unique_ptr<RendezvousStore> MakeKnownAddress(const HostPort& address);

// Returns the job name in a form for file names and keys: %xx replaces each character other than
// [A-Za-z0-9_-].
std::string FileNameOf(const std::string& job);

}  // namespace tandem::collective
