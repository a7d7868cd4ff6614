// A communicator: a fixed set of ranks that reduce, broadcast and gather memory together. One
// interface for ranks of host memory (in-process, TCP, shared) and of devices (NCCL).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/tensor/device.h"
#include "common/tensor/reduce.h"
#include "common/tensor/types.h"

namespace tandem {

// The numbers travel in message headers: never reuse one.
enum class CollectiveOp : uint8_t {
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kAllGather = 4,
  kBarrier = 5,
  kReduceScatter = 6,
  kAllToAll = 7,
  kSendRecv = 8,
};

const char* Name(CollectiveOp op);  // "AllReduce", ...

// One call of a collective. Every rank of a communicator makes the same calls in the same order,
// with the same op, count, dtype, reduce and root; a difference is an error on all ranks. Messages
// (kSendRecv) are the affair of two ranks each: what one sends, the other receives, in the same
// order among them and between the same collectives.
struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  // Memory of the host, or of the communicator's device, aligned to its element. Not owned; both
  // stay valid and untouched by others until the Work is done (a Wait that timed out is not done).
  // In place is `in == out`, or the part of the one that the other is (see the calls below); any
  // other overlap is an error. What `out` holds after a failure is undefined.
  const void* in = nullptr;
  void* out = nullptr;
  // Elements: what each rank gives (kReduceScatter: gets; kAllToAll: gives each).
  size_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  // Of kReduce and kBroadcast: ranks [k * group, (k + 1) * group) are group k, each with a `root`
  // of its own, which is number `root` in it. Each of these gets the sum of all ranks; each gives
  // what it has to its group. 0: no groups. Between hosts alone.
  int group = 0;
  // Of kSendRecv: the ranks that `in` goes to and that `out` comes from; -1: that half is not
  // there, nor its memory.
  int to = -1, from = -1;
  std::string what;  // the variable or bucket, for messages
  // Further memory that the same call works on, each piece as it does on the first: the variables
  // of a bucket that do not lie side by side. Communicators of devices alone take it.
  struct Piece {
    const void* in;
    void* out;
    size_t count;
  };
  std::vector<Piece> more;
  // When the operation fails, and the communicator with it. Time::max(): the communicator's own
  // operation timeout, counted from the moment the operation starts.
  Time deadline = Time::max();
};
// `AllReduce(sum, f32[1000]) of "fc_0.w_0@GRAD"`.
std::string ToString(const Collective& call);

// INVALID_ARGUMENT for what no communicator of `size` ranks can do.
Status CheckCall(const Collective& call, int rank, int size);

// What carries collectives between ranks that are processes.
enum class TransportKind : uint8_t {
  kAuto,          // shared memory where all ranks are on one host, else TCP
  kTcp,           // on one host too
  kSharedMemory,  // or an error that names the rank which cannot reach it
};

// An operation under way. Thread-safe.
class Work {
 public:
  virtual ~Work() = default;
  // Blocks until the operation ended and returns how. DEADLINE_EXCEEDED if it has not ended by
  // `deadline`: then it still runs and still uses its memory.
  virtual Status Wait(Time deadline) = 0;
  // Calls `done` once when the operation ends: on the communication thread, or at once on the
  // calling thread when it has ended already. `done` must not block and must not destroy the
  // communicator; it may start further operations.
  virtual void OnDone(std::function<void(const Status&)> done) = 0;
  virtual bool finished() const = 0;
};

struct CallOptions {
  std::string what;
  Time deadline = Time::max();
};

// Thread-safe, but the order of calls must be the same on all ranks. Calls return at once; the
// operations run in call order on the communicator's own thread. A bad argument fails that Work
// alone (INVALID_ARGUMENT) on every rank that passed it, without a message to the others. Any
// other failure is final: all pending and later operations of this rank fail with the same cause,
// and the other ranks are told. The destructor aborts what is pending.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // "tcp communicator 0"
  virtual std::shared_ptr<Work> Start(Collective call) = 0;
  // Start and Wait in one. Runs on the calling thread where nothing else is pending, which saves
  // two changes of threads.
  virtual Status Call(Collective call) { return Start(std::move(call))->Wait(Time::max()); }
  // OK, or the failure that ended it.
  virtual Status Health() const = 0;
  // Memory that collectives of this communicator move fastest: in shared memory the others work on
  // it in place. It may outlive the communicator; what it holds at first is undefined.
  virtual StatusOr<Buffer> Allocate(size_t bytes);
  // Fails everything pending and later, here and on the other ranks, with `reason`. Never blocks.
  virtual void Abort(const std::string& reason) = 0;

  // out[i] = in of all ranks, reduced; the same bits on every rank. f32, f16, bf16, i32, i64.
  std::shared_ptr<Work> AllReduce(const void* in, void* out, size_t count, DType dtype,
                                  ReduceOp reduce, CallOptions options = {});
  // The same bits as AllReduce, in `out` of `root`. On other ranks `out` is scratch memory of the
  // same size (in place allowed).
  std::shared_ptr<Work> Reduce(const void* in, void* out, size_t count, DType dtype,
                               ReduceOp reduce, int root, CallOptions options = {});
  // `data` of `root` to `data` of all. Any dtype.
  std::shared_ptr<Work> Broadcast(void* data, size_t count, DType dtype, int root,
                                  CallOptions options = {});
  // out[r * count, (r + 1) * count) = in of rank r. In place: in == out + rank * count elements.
  std::shared_ptr<Work> AllGather(const void* in, void* out, size_t count, DType dtype,
                                  CallOptions options = {});
  // out = elements [rank * count, (rank + 1) * count) of what AllReduce makes of `in`, which has
  // size() * count; the same bits as there. In place: out == in + rank * count elements, and the
  // rest of `in` is then undefined.
  std::shared_ptr<Work> ReduceScatter(const void* in, void* out, size_t count, DType dtype,
                                      ReduceOp reduce, CallOptions options = {});
  // Elements [r * count, (r + 1) * count) of `in` to rank r, and of `out` from rank r; both have
  // size() * count. In place allowed, but not among devices.
  std::shared_ptr<Work> AllToAll(const void* in, void* out, size_t count, DType dtype,
                                 CallOptions options = {});
  // From rank to rank. A Send may end before the other has received, or wait for that: two ranks
  // that send to each other do it by SendRecv, of which both halves go on at once (`to` and `from`
  // may differ; in place allowed, but not among devices).
  std::shared_ptr<Work> Send(const void* in, size_t count, DType dtype, int to,
                             CallOptions options = {});
  std::shared_ptr<Work> Recv(void* out, size_t count, DType dtype, int from,
                             CallOptions options = {});
  std::shared_ptr<Work> SendRecv(const void* in, int to, void* out, int from, size_t count,
                                 DType dtype, CallOptions options = {});
  // Done once every rank has started it.
  std::shared_ptr<Work> Barrier(CallOptions options = {});
};

}  // namespace tandem
