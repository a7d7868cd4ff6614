// Uses a rendezvous store. Rank 0 listens and announces its address; the other ranks find rank 0.
// Internal to collective/, because it includes Asio.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "collective/rendezvous/blocking_io_context.h"
#include "collective/rendezvous/listener.h"
#include "collective/rendezvous/rendezvous_store.h"

namespace tandem::collective {

// Checks that `config` allows the address `host`. PERMISSION_DENIED: `host` is a network address
// and config.network_allowed is false.
Status CheckNetwork(const WorldConfig& config, const std::string& host);

// The access of one rank to the rendezvous store. Not thread-safe: for one thread.
class RendezvousHandler {
 public:
  // `config` must outlive this object.
  explicit RendezvousHandler(const WorldConfig& config) : config_(config) {}

  // Makes the store. The caller calls Prepare before all other functions. INVALID_ARGUMENT:
  // config.rendezvous is invalid.
  Status Prepare();

  // Makes `listener` listen and announces its address; only rank 0 calls this. The other ranks can
  // find rank 0 until this object is destroyed.
  Status Open(Listener& listener, BlockingIoContext& waiter);

  // Returns the address of rank 0; only the other ranks call this function. After an error, `again`
  // tells whether another attempt may succeed.
  StatusOr<Meeting> Find(Time deadline, bool& again);

  // Returns the name of the store for messages: an address, directory or URL.
  std::string name() const { return store_->name(); }

 private:
  StatusOr<std::string> Host() const;
  Status CheckNetwork(const HostPort& address) const;
  Status Announce(const Meeting& meeting, BlockingIoContext& waiter);

  const WorldConfig& config_;
  RendezvousUrl url_;
  std::unique_ptr<RendezvousStore> store_;
  std::optional<Time> denied_at_;  // time of the first PERMISSION_DENIED of the store in Find
};

}  // namespace tandem::collective
