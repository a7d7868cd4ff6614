// The world of a PsClient: what carries its calls to the servers, and by which clock it waits. gRPC
// and lanes in the product (grpc_ps_channel.h), a network of its own making in the simulator.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/shm_rpc/handshake.h"
#include "common/tensor/device.h"

namespace tandem {

// Something that happens once. Thread-safe.
class PsEvent {
 public:
  virtual ~PsEvent() = default;
  virtual void Set() = 0;
  // Blocks; false when `deadline` passed first.
  virtual bool WaitUntil(Time deadline) = 0;
};

// Thread-safe. Servers are numbered from 0.
class PsChannel {
 public:
  // The answer is there during the call alone.
  using Take = std::function<void(const Status&, Fragments answer)>;
  // Asks a server for an invitation to a lane; blocks.
  using Invite = std::function<StatusOr<ShmRpcTicket>(int server)>;

  virtual ~PsChannel() = default;
  virtual Time Now() const = 0;
  virtual std::unique_ptr<PsEvent> MakeEvent() = 0;
  // `method`: "Push", a literal. What was lost on the way is sent again, the same bytes (retry.h);
  // `deadline` covers all of it. `take` is called exactly once.
  virtual void Call(int server, const char* method, EncodedMessage request, Time deadline,
                    Take take) = 0;
  // Memory from which a message to this server need not be copied on its way; null: there is none.
  virtual Buffer Allocate(int /*server*/, size_t /*bytes*/) { return nullptr; }
  // Calls `then` a little later, or at once when this is being closed.
  virtual void After(Duration pause, std::function<void()> then) = 0;
  // A server that came to the running job; `server` is not one of those that there were.
  // INVALID_ARGUMENT for what is no address.
  virtual Status AddServer(int server, const std::string& address) = 0;
  // This server is needed no more: ends pushes and pulls that are under way there, with CANCELLED.
  virtual void Abandon(int server) = 0;
  // Ends what is under way, waits for it, and carries nothing more.
  virtual void Close() = 0;

  // From now on pushes and pulls go through shared memory where it reaches; gives the number of
  // servers that it does.
  virtual StatusOr<int> OpenLanes(const Invite& /*invite*/) { return 0; }
  virtual uint64_t lane_calls() const { return 0; }  // that shared memory carried
};

// "pserver 0 (127.0.0.1:1234)"
std::string PserverName(int index, const std::string& address);

}  // namespace tandem
