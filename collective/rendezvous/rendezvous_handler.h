// The use of a rendezvous store: rank 0 listens and announces itself, the other ranks find it.
// Internal to collective/, because it includes Asio.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collective/rendezvous/blocking_io_context.h"
#include "collective/rendezvous/listener.h"
#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// PERMISSION_DENIED: `host` is on the network, which `config` does not allow.
Status CheckNetwork(const WorldConfig& config, const std::string& host);

// The rendezvous store of one rank. For one thread.
class RendezvousHandler {
 public:
  // `config` must outlive this.
  explicit RendezvousHandler(const WorldConfig& config) : config_(config) {}

  // Call it first. INVALID_ARGUMENT: config.rendezvous is invalid.
  Status Prepare();

  // For rank 0: makes `listener` listen and announces it. The other ranks can find it until this is
  // destroyed.
  Status Open(Listener& listener, BlockingIoContext& waiter);

  // For other ranks: returns the address of rank 0. Sets `again` if another attempt may succeed.
  StatusOr<Meeting> Find(Time deadline, bool& again);

  // The address or the store, for messages.
  std::string name() const { return store_->name(); }

 private:
  StatusOr<std::string> Host() const;
  Status CheckNetwork(const HostPort& address) const;
  Status Announce(const Meeting& meeting, BlockingIoContext& waiter);

  const WorldConfig& config_;
  RendezvousUrl url_;
  std::unique_ptr<RendezvousStore> store_;
  std::optional<Time> denied_at_;  // time at which another's announcement was first seen
};

}  // namespace tandem::collective
