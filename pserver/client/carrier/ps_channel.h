// The interface through which a PsClient calls servers, with the clock for the client's waits. The
// product uses gRPC and shm RPC (grpc_ps_channel.h). The simulator uses a simulated network.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/rpc/pserver_call.h"
#include "common/shm_rpc/handshake.h"
#include "common/tensor/device.h"

namespace tandem::ps {

// An event that is set once. Thread-safe.
class PsEvent {
 public:
  virtual ~PsEvent() = default;
  virtual void Set() = 0;
  // Blocks until Set is called. Returns false if `deadline` passes before.
  virtual bool WaitUntil(Time deadline) = 0;
};

// Calls the servers, which have the indices 0, 1, 2 ... Thread-safe.
class PsChannel {
 public:
  // Receives the result of a call. The bytes of `answer` are valid only until the function returns.
  using Take = std::function<void(const Status&, codec::Fragments answer)>;
  // Requests an shm RPC ticket from a server. Blocks.
  using Invite = std::function<StatusOr<shm_rpc::ShmRpcTicket>(int server)>;

  virtual ~PsChannel() = default;
  virtual Time Now() const = 0;
  virtual std::unique_ptr<PsEvent> MakeEvent() = 0;
  // Calls a server. Repeats the same bytes after a lost connection (retry.h). `deadline` covers all
  // attempts. Calls `take` exactly once.
  virtual void Call(int server, rpc::PserverCall call, codec::EncodedMessage request, Time deadline,
                    Take take) = 0;
  // Returns `bytes` bytes of memory from which a message to this server can be sent without a copy;
  // null: the caller must use other memory.
  virtual Buffer Allocate(int /*server*/, size_t /*bytes*/) { return nullptr; }
  // Calls `then` after `pause`, or immediately if the channel is being closed.
  virtual void After(Duration pause, std::function<void()> then) = 0;
  // Adds a server that joined the running job. `server` must be a new index. INVALID_ARGUMENT: the
  // address is invalid.
  virtual Status AddServer(int server, const std::string& address) = 0;
  // Ends all pushes and pulls to a server with CANCELLED, because the server has left the job.
  virtual void Abandon(int server) = 0;
  // Cancels all calls and waits for their end. No call may begin after Close.
  virtual void Close() = 0;

  // Opens shm RPC connections for pushes and pulls to the servers on this host. Returns the number
  // of opened connections.
  virtual StatusOr<int> OpenShmChannels(const Invite& /*invite*/) { return 0; }
  virtual uint64_t shm_calls() const { return 0; }  // number of calls made through shared memory
};

// Returns the name of a server in messages: "pserver 0 (127.0.0.1:1234)".
std::string PserverName(int index, const std::string& address);

}  // namespace tandem::ps
