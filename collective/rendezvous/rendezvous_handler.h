// Where the ranks of one world meet: rank 0 opens its door there and says so, the others find it.
// Internal to collective/: drags in Asio.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collective/rendezvous/blocking_io_context.h"
#include "collective/rendezvous/listener.h"
#include "collective/rendezvous/rendezvous_store.h"

namespace tandem {

// PERMISSION_DENIED for a host on the network where that is not allowed.
Status CheckNetwork(const WorldConfig& config, const std::string& host);

// One thread.
class RendezvousHandler {
 public:
  // `config` must outlive it.
  explicit RendezvousHandler(const WorldConfig& config) : config_(config) {}

  // INVALID_ARGUMENT when config.rendezvous is no rendezvous. First.
  Status Prepare();

  // Of rank 0: `listener` listens, and until this object goes the others can find it.
  Status Open(Listener& listener, BlockingIoContext& waiter);

  // Of the others: where rank 0 is. `again`: whether another look may end otherwise.
  StatusOr<Meeting> Find(Time deadline, bool& again);

  // Where it is, or who tells: for messages.
  std::string name() const { return store_->name(); }

 private:
  StatusOr<std::string> Host() const;
  Status CheckNetwork(const HostPort& address) const;
  Status Announce(const Meeting& meeting, BlockingIoContext& waiter);

  const WorldConfig& config_;
  RendezvousUrl url_;
  std::unique_ptr<RendezvousStore> store_;
  std::optional<Time> denied_at_;  // when another's announcement was first seen
};

}  // namespace tandem
