// The store from which the ranks of a job learn the address of rank 0.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "collective/rendezvous/announcement.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::collective {

// The address of rank 0 and the nonce of its announcement. Nonce 0: the address is from the
// configuration, without announcement.
struct Meeting {
  Meeting() = default;
  Meeting(HostPort where, const Nonce& nonce = {}) : address(std::move(where)), meeting(nonce) {}
  HostPort address;
  Nonce meeting = {};
};

// The store as one rank uses it. For one thread.
class RendezvousStore {
 public:
  // Withdraws the announcement. Gives up after two seconds.
  virtual ~RendezvousStore() = default;

  // For rank 0: publishes its address. Call it once. ALREADY_EXISTS: another rank 0 of this job has
  // announced itself, or one that died less than lapse() ago; the message names it. UNAVAILABLE: no
  // reply from the store. Also FAILED_PRECONDITION and PERMISSION_DENIED.
  virtual Status Announce(const Meeting& meeting, Time deadline) = 0;

  // For other ranks: returns the address of rank 0. NOT_FOUND: rank 0 has not announced itself or
  // has died since; the message says which. UNAVAILABLE: no reply from the store. A retry may help
  // after both. PERMISSION_DENIED: the announcement is not of this job's rank 0.
  virtual StatusOr<Meeting> Find(Time deadline) = 0;

  // Time for which the entry of a rank 0 that died stays.
  virtual Duration lapse() const { return Duration::zero(); }
  // For messages.
  virtual std::string name() const = 0;
};

// Makes the store for `job` (at most 63 bytes) and its secret. Accesses no file and no network.
std::unique_ptr<RendezvousStore> MakeRendezvousStore(const RendezvousUrl& url,
                                                     const std::string& job,
                                                     const std::string& secret);

// A fixed address that all ranks know from the configuration.
std::unique_ptr<RendezvousStore> MakeKnownAddress(const HostPort& address);

// Returns a name for files and keys: characters other than letters, digits, '-' and '_' become %xx.
std::string FileNameOf(const std::string& job);

}  // namespace tandem::collective
