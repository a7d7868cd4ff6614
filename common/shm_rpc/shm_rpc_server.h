// The server of shm RPC (shm_rpc_client.h). One thread receives the requests of all connections,
// one after another. Replies may come from any thread, at any time.
#pragma once

#include <functional>
#include <memory>

#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/shm/arena.h"
#include "common/shm/sealed_memory.h"
#include "common/shm_rpc/handshake.h"

namespace tandem::shm_rpc {

// Memory of a server that its clients can read but not write. Replies in this memory are sent
// without a copy.
struct ServerMemory {
  static StatusOr<ServerMemory> Make(size_t bytes);
  std::shared_ptr<SealedMemory> memory;
  std::shared_ptr<Arena> arena;  // over all of `memory`
};

// Must be called exactly once for each request. Has no effect if the connection is lost. Errors are
// sent to the client.
using ReplyFn = std::function<void(const Status&, codec::EncodedMessage)>;
// `message` was written by a client, which may change it at any time. It is valid only during the
// call.
using CallHandler = std::function<void(uint32_t method, codec::Fragments message, ReplyFn answer)>;

// Accepts connections and serves their requests. Thread-safe.
class ShmRpcServer {
 public:
  static constexpr size_t kCallBytes = size_t{1} << 30;  // bytes for the requests of one connection

  // UNAVAILABLE: no Unix sockets, or no file can be opened. REQUIRES that `call_bytes` is a
  // multiple of the page size.
  static StatusOr<std::unique_ptr<ShmRpcServer>> Start(ServerMemory memory, CallHandler handler,
                                                       size_t call_bytes = kCallBytes);
  ~ShmRpcServer();  // closes all connections; the handler is not called afterwards

  // Returns a ticket, valid for ten seconds. RESOURCE_EXHAUSTED: too many unused tickets.
  StatusOr<ShmRpcTicket> Invite();
  int connections() const;  // open connections

 private:
  class Connection;
  class Loop;
  explicit ShmRpcServer(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace tandem::shm_rpc
