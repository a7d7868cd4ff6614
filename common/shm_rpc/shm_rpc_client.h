// The client of shm RPC: unary calls to a process on the same host, through memory that both share.
// A message is copied once, into that memory; the receiver reads it in place.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/os/fd.h"
#include "common/shm/sealed_memory.h"
#include "common/shm_rpc/handshake.h"
#include "common/shm_rpc/message.h"
#include "common/shm_rpc/ring.h"

namespace tandem::shm_rpc {

// A client of one server. One thread serves it with Run; Call may be used from any thread.
// Thread-safe.
class ShmRpcClient {
 public:
  // Called exactly once, on the thread that is in Run. `answer` is valid only during the call.
  // UNAVAILABLE: the connection is lost, or the server had no memory for the reply.
  // DEADLINE_EXCEEDED: no reply in time. After both errors it is unknown whether the server has
  // executed the call.
  using Reply = std::function<void(const Status&, codec::Fragments answer)>;

  // UNAVAILABLE: the server is not reachable from here. PERMISSION_DENIED: it belongs to another
  // user.
  static StatusOr<std::unique_ptr<ShmRpcClient>> Connect(const ShmRpcTicket& invitation,
                                                         Time deadline);
  ~ShmRpcClient();  // REQUIRES that no thread is in Run

  // Allocates memory of the connection. Requests in this memory are sent without a copy. Keep it
  // until the server has read it (EncodedMessage::Piece::keep). Null: no free memory.
  Buffer Allocate(size_t bytes) { return arena_->Allocate(bytes); }
  // Sends a request. False: nothing was sent, because the message is too large, too many calls are
  // running, or the connection is lost. `request` may be destroyed after the return.
  bool Call(uint32_t method, const codec::EncodedMessage& request, Time deadline, Reply reply);

  // Serves the connection until it is lost (returns the reason) or until Stop. Call it once.
  Status Run();
  void Stop();

 private:
  struct Pending {
    Time deadline;
    Reply reply;    // null: already called; the server may still read the message
    Buffer memory;  // memory of the message; null: not sent yet
    std::vector<std::shared_ptr<const void>> keep;  // owners of memory that the message references
  };

  ShmRpcClient(Fd socket, Fd wake, std::shared_ptr<SealedMemory> memory,
               std::shared_ptr<SealedMemory> server);
  RingHeader& control() const { return *reinterpret_cast<RingHeader*>(memory_->bytes().data()); }
  StatusOr<bool> TakeAnswers();
  Status TakeAnswer(const RingEntry& entry);
  void ExpireCalls();
  Status Sleep();
  Status Serve();
  void FailAll(const Status& status);

  const Fd socket_;
  const Fd wake_;  // eventfd: set by Stop
  const std::shared_ptr<SealedMemory> memory_, server_;
  const std::shared_ptr<Arena> arena_;  // for the requests
  RingReceiver answers_;
  std::atomic<bool> stopped_ = false;

  Mutex mu_;
  RingSender calls_ TD_GUARDED_BY(mu_);
  bool open_ TD_GUARDED_BY(mu_) = true;
  uint64_t next_ TD_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, Pending> pending_ TD_GUARDED_BY(mu_);  // fewer than ShmRpcRing::kEntries
};

}  // namespace tandem::shm_rpc
