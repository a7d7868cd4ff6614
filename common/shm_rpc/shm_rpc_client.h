// The client of shm RPC: unary calls to a process on the same host through shared memory. The
// sender copies a message once, into the shared memory. The receiver reads it in place.
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

// A client of one server. One thread runs Run() and receives replies. Call() is thread-safe.
class ShmRpcClient {
 public:
  // The function that receives the reply of a call. It is called exactly once, on the thread that
  // is in Run. `answer` is valid only during the call. UNAVAILABLE: the connection is lost, or the
  // server had no memory for the reply. DEADLINE_EXCEEDED: no reply arrived in time. After either
  // error it is unknown whether the server has executed the call.
  using Reply = std::function<void(const Status&, codec::Fragments answer)>;

  // Connects to the server that gave the ticket. UNAVAILABLE: the server is not reachable from this
  // process. PERMISSION_DENIED: the server runs as another user.
  static StatusOr<std::unique_ptr<ShmRpcClient>> Connect(const ShmRpcTicket& invitation,
                                                         Time deadline);
  ~ShmRpcClient();  // REQUIRES: no thread is in Run

  // Allocates memory that the server can read. A request in this memory is sent without a copy. The
  // memory must stay allocated until the server has read the request; EncodedMessage::Piece::keep
  // ensures this. Returns null if there is no free memory.
  Buffer Allocate(size_t bytes) { return arena_->Allocate(bytes); }
  // Sends a request. Returns false if nothing was sent: the message is too large, too many calls
  // are running, or the connection is lost. `request` may be destroyed after the return.
  bool Call(uint32_t method, const codec::EncodedMessage& request, Time deadline, Reply reply);

  // Receives replies until the connection is lost or Stop is called. Returns the error that ended
  // the connection; OK: Stop was called. Call it only once.
  Status Run();
  void Stop();

 private:
  struct Pending {
    Time deadline;
    Reply reply;    // null: already called, but the server may still read the message
    Buffer memory;  // memory of the request; null: the request is not sent yet
    std::vector<std::shared_ptr<const void>> keep;  // owners of memory that the request references
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
  const Fd wake_;  // eventfd that Stop sets
  const std::shared_ptr<SealedMemory> memory_, server_;
  const std::shared_ptr<Arena> arena_;  // memory for the requests
  RingReceiver answers_;
  std::atomic<bool> stopped_ = false;

  Mutex mu_;
  RingSender calls_ TD_GUARDED_BY(mu_);
  bool open_ TD_GUARDED_BY(mu_) = true;
  uint64_t next_ TD_GUARDED_BY(mu_) = 1;
  // Running calls by id, at most ShmRpcRing::kEntries.
  std::map<uint64_t, Pending> pending_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::shm_rpc
