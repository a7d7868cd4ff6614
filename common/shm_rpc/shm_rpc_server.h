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

// Memory of a server that its clients can read but not write. A reply in this memory is sent
// without a copy.
struct ServerMemory {
  static StatusOr<ServerMemory> Make(size_t bytes);
  std::shared_ptr<SealedMemory> memory;
  std::shared_ptr<Arena> arena;  // allocator for all of `memory`
};

// A function that sends the reply of one request. The handler calls the function exactly once for
// each request. The call has no effect if the connection is lost. A Status that is not OK is sent
// to the client instead of the message.
using ReplyFn = std::function<void(const Status&, codec::EncodedMessage)>;
// A function that handles one request. `message` is valid only during the call. The client may
// change the bytes of `message` at any time.
using CallHandler = std::function<void(uint32_t method, codec::Fragments message, ReplyFn answer)>;

// Accepts connections of clients and calls the handler for their requests. Thread-safe.
class ShmRpcServer {
 public:
  // Default size of the memory for the requests of one connection, in bytes.
  static constexpr size_t kCallBytes = size_t{1} << 30;

  // Starts the server. `call_bytes` must be a multiple of the page size. UNAVAILABLE: the host has
  // no Unix-domain sockets, or the process may open no more files.
  static StatusOr<std::unique_ptr<ShmRpcServer>> Start(ServerMemory memory, CallHandler handler,
                                                       size_t call_bytes = kCallBytes);
  ~ShmRpcServer();  // closes all connections; afterwards the handler is not called

  // Returns a ticket that is valid for ten seconds. RESOURCE_EXHAUSTED: too many unused tickets.
  StatusOr<ShmRpcTicket> Invite();
  int connections() const;  // number of open connections

 private:
  class Connection;
  class Loop;
  explicit ShmRpcServer(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace tandem::shm_rpc
