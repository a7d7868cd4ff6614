// The server's end of lanes (shm_rpc_client.h). One thread takes the calls of all lanes, one after
// another; answers may come from any thread, at any time.
#pragma once

#include <functional>
#include <memory>

#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/shm/arena.h"
#include "common/shm/sealed_memory.h"
#include "common/shm_rpc/handshake.h"

namespace tandem {

// Memory of a server that its clients read and cannot write: what lies there travels without a
// copy.
struct LaneMemory {
  static StatusOr<LaneMemory> Make(size_t bytes);
  std::shared_ptr<SealedMemory> memory;
  std::shared_ptr<Arena> arena;  // of all of it
};

// Called exactly once for each call; where the lane is gone, in vain. Errors travel as such.
using LaneAnswer = std::function<void(const Status&, EncodedMessage)>;
// The message is what a client wrote, and is there, for the client to change, during the call
// alone.
using LaneHandler = std::function<void(uint32_t method, Fragments message, LaneAnswer answer)>;

// Thread-safe.
class ShmRpcServer {
 public:
  static constexpr size_t kCallBytes = size_t{1} << 30;  // of the calls of one lane

  // UNAVAILABLE where there are no Unix sockets, or no file can be opened. `call_bytes`: a multiple
  // of the page size.
  static StatusOr<std::unique_ptr<ShmRpcServer>> Start(LaneMemory memory, LaneHandler handler,
                                                       size_t call_bytes = kCallBytes);
  ~ShmRpcServer();  // closes all lanes; the handler is not called any more

  // Good for ten seconds. RESOURCE_EXHAUSTED when too many are out.
  StatusOr<ShmRpcTicket> Invite();
  int lanes() const;  // that are open

 private:
  class Lane;
  class Loop;
  explicit ShmRpcServer(std::unique_ptr<Loop> loop);
  const std::unique_ptr<Loop> loop_;
};

}  // namespace tandem
