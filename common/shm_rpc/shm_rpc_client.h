// A lane: unary calls to a process on the same host, through memory that both share. A message is
// copied once, into that memory; whoever gets it reads it where it lies.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/mutex.h"
#include "common/shm/sealed_memory.h"
#include "common/shm_rpc/handshake.h"
#include "common/shm_rpc/message.h"
#include "common/shm_rpc/ring.h"

namespace tandem {

// Thread-safe.
class ShmRpcClient {
 public:
  // Exactly once, on the thread that is in Run. The answer is there during the call alone.
  // UNAVAILABLE: the lane is lost, or the server had no room for the answer; nobody knows whether
  // the call was carried out. DEADLINE_EXCEEDED: nor then.
  using Reply = std::function<void(const Status&, Fragments answer)>;

  // UNAVAILABLE when the server cannot be reached from here; PERMISSION_DENIED when it is another
  // user's.
  static StatusOr<std::unique_ptr<ShmRpcClient>> Connect(const ShmRpcTicket& invitation,
                                                         Time deadline);
  ~ShmRpcClient();  // REQUIRES: nobody is in Run

  // Memory of the lane, in which a request need not be copied: what lies there is kept until the
  // server has read it (EncodedMessage::Piece::keep). Null: there is no room.
  Buffer Allocate(size_t bytes) { return arena_->Allocate(bytes); }
  // False: nothing was sent, because the message is too large, too many calls are under way, or the
  // lane is lost. The request may go away when this returns.
  bool Call(uint32_t method, const EncodedMessage& request, Time deadline, Reply reply);

  // Serves the lane until it is lost, and says why, or until Stop. Once.
  Status Run();
  void Stop();

 private:
  struct Pending {
    Time deadline;
    Reply reply;    // null: told already; the server may still read the message
    Buffer memory;  // of the message; null: not sent yet
    std::vector<std::shared_ptr<const void>> keep;  // ... and of what it refers to
  };

  ShmRpcClient(Fd socket, Fd wake, std::shared_ptr<SealedMemory> lane,
               std::shared_ptr<SealedMemory> server);
  RingHeader& control() const { return *reinterpret_cast<RingHeader*>(lane_->bytes().data()); }
  StatusOr<bool> TakeAnswers();
  Status TakeAnswer(const RingEntry& entry);
  void ExpireCalls();
  Status Sleep();
  Status Serve();
  void FailAll(const Status& status);

  const Fd socket_;
  const Fd wake_;  // an event: Stop
  const std::shared_ptr<SealedMemory> lane_, server_;
  const std::shared_ptr<Arena> arena_;  // of the calls
  LaneReceiver answers_;
  std::atomic<bool> stopped_ = false;

  Mutex mu_;
  LaneSender calls_ TD_GUARDED_BY(mu_);
  bool open_ TD_GUARDED_BY(mu_) = true;
  uint64_t next_ TD_GUARDED_BY(mu_) = 1;
  std::map<uint64_t, Pending> pending_ TD_GUARDED_BY(mu_);  // less than ShmRpcRing::kEntries
};

}  // namespace tandem
