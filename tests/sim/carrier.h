// Carries the calls of a PsClient through a SimNetwork to SimServers. The retries of calls follow
// the product's rules (CallRetries).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pserver/client/carrier/ps_channel.h"
#include "tests/sim/network.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"

namespace tandem::pserver {

// The channel of a simulated client. Not thread-safe. Calls and pauses end as events of the
// SimWorld.
class SimCarrier final : public ps::PsChannel {
 public:
  // Server i is node i of the network; `servers` must outlive the carrier. `retries` has the
  // meaning of PsOptions::retries.
  SimCarrier(std::shared_ptr<SimProcess> process, SimNetwork& network,
             std::vector<SimAddress*> servers, int retries);
  Time Now() const override { return process_->world().Now(); }
  std::unique_ptr<ps::PsEvent> MakeEvent() override { return process_->MakeEvent(); }
  void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
            Take take) override;
  void After(Duration pause, std::function<void()> then) override;
  // Adds no server, because the constructor gets all of them. INVALID_ARGUMENT: it did not get this
  // one.
  Status AddServer(int server, const std::string& address) override;
  void Abandon(int server) override;
  void Close() override;

 private:
  struct OneCall;
  struct Shared;  // state that all calls of this carrier share
  std::shared_ptr<SimProcess> process_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tandem::pserver
