// The interface of a communicator: a fixed set of ranks that reduce, broadcast and gather memory
// together. Ranks of host memory (in-process, TCP, shared memory) and of devices (NCCL) implement
// it.
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

namespace tandem::collective {

// The values are part of the message header on the wire: never reuse one.
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

// The arguments of one collective operation. Every rank of a communicator makes the same calls in
// the same order. Their op, count, dtype, reduce and root must be equal; a difference is an error
// on all ranks. kSendRecv involves two ranks only. The sends of one rank match the receives of the
// other in order, and both ranks make them between the same collectives.
struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  // Memory of the host, or of the communicator's device, aligned to its element. Not owned. Both
  // buffers must stay valid and unused by others until the Work is done; a Wait that timed out does
  // not mean that it is done. An operation in place has `in == out`, or one buffer is part of the
  // other (see the calls below); any other overlap is an error. The content of `out` after a
  // failure is undefined.
  const void* in = nullptr;
  void* out = nullptr;
  // Elements that each rank contributes. kReduceScatter: elements that each rank receives;
  // kAllToAll: elements for each rank.
  size_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  // For kReduce and kBroadcast, between hosts only: ranks [k * group, (k + 1) * group) form group
  // k. The root of each group is its member number `root`. In kReduce each root receives the sum
  // over all ranks; in kBroadcast each root sends its data to its group. 0: no groups.
  int group = 0;
  // For kSendRecv: the rank that receives `in`, and the rank that sends `out`. -1: this half does
  // not exist, nor does its memory.
  int to = -1, from = -1;
  std::string what;  // the variable or gradient bucket, for messages
  // Further memory that the same call processes, each piece like the first: variables of a gradient
  // bucket that are not contiguous. Only communicators of devices support it.
  struct Piece {
    const void* in;
    void* out;
    size_t count;
  };
  std::vector<Piece> more;
  // The operation, and with it the communicator, fails at this time. Time::max(): the
  // communicator's own operation timeout, counted from the start of the operation.
  Time deadline = Time::max();
};
// Example: `AllReduce(sum, f32[1000]) of "fc_0.w_0@GRAD"`.
std::string ToString(const Collective& call);

// INVALID_ARGUMENT: no communicator of `size` ranks can run this call.
Status CheckCall(const Collective& call, int rank, int size);

// Transport of collectives between ranks in different processes.
enum class TransportKind : uint8_t {
  kAuto,          // shared memory if all ranks are on one host, else TCP
  kTcp,           // TCP, on one host too
  kSharedMemory,  // shared memory, or an error that names the rank which cannot use it
};

// A running operation. Thread-safe.
class Work {
 public:
  virtual ~Work() = default;
  // Blocks until the operation has ended, and returns its status. DEADLINE_EXCEEDED: it has not
  // ended by `deadline`; it still runs and still uses its memory.
  virtual Status Wait(Time deadline) = 0;
  // Calls `done` once when the operation ends: on the communication thread, or immediately on the
  // calling thread if it has already ended. `done` must not block and must not destroy the
  // communicator; it may start further operations.
  virtual void OnDone(std::function<void(const Status&)> done) = 0;
  virtual bool finished() const = 0;
};

struct CallOptions {
  std::string what;
  Time deadline = Time::max();
};

// Runs collectives of one rank. Calls return immediately; the operations run in call order on the
// communicator's own thread. Thread-safe, but the order of calls must be the same on all ranks. A
// bad argument fails only this Work (INVALID_ARGUMENT), on every rank that passed it, without a
// message to the other ranks. Any other failure is final: all pending and later operations of this
// rank fail with the same cause, and the other ranks are notified. The destructor aborts all
// pending operations.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // "tcp communicator 0"
  virtual std::shared_ptr<Work> Start(Collective call) = 0;
  // Equals Start and Wait. Runs on the calling thread if no other operation is pending, which saves
  // two thread switches.
  virtual Status Call(Collective call) { return Start(std::move(call))->Wait(Time::max()); }
  // OK, or the failure that ended this communicator.
  virtual Status Health() const = 0;
  // Allocates memory that collectives of this communicator move fastest: with shared memory the
  // other ranks access it in place. It may outlive the communicator. Its initial content is
  // undefined.
  virtual StatusOr<Buffer> Allocate(size_t bytes);
  // Fails all pending and later operations, here and on the other ranks, with `reason`. Never
  // blocks.
  virtual void Abort(const std::string& reason) = 0;

  // out[i] = reduction of in[i] over all ranks, bitwise equal on every rank. f32, f16, bf16, i32,
  // i64.
  std::shared_ptr<Work> AllReduce(const void* in, void* out, size_t count, DType dtype,
                                  ReduceOp reduce, CallOptions options = {});
  // The result in `out` of `root` is bitwise equal to that of AllReduce. On other ranks `out` is
  // scratch memory of the same size (in place allowed).
  std::shared_ptr<Work> Reduce(const void* in, void* out, size_t count, DType dtype,
                               ReduceOp reduce, int root, CallOptions options = {});
  // Copies `data` of `root` to `data` of all ranks. Any dtype.
  std::shared_ptr<Work> Broadcast(void* data, size_t count, DType dtype, int root,
                                  CallOptions options = {});
  // out[r * count, (r + 1) * count) = in of rank r. In place: in == out + rank * count elements.
  std::shared_ptr<Work> AllGather(const void* in, void* out, size_t count, DType dtype,
                                  CallOptions options = {});
  // out = elements [rank * count, (rank + 1) * count) of the AllReduce result of `in`, bitwise
  // equal to it. `in` has size() * count elements. In place: out == in + rank * count elements, and
  // the rest of `in` is undefined afterwards.
  std::shared_ptr<Work> ReduceScatter(const void* in, void* out, size_t count, DType dtype,
                                      ReduceOp reduce, CallOptions options = {});
  // Sends elements [r * count, (r + 1) * count) of `in` to rank r, and receives those of `out` from
  // rank r. Both buffers have size() * count elements. In place is allowed, but not on devices.
  std::shared_ptr<Work> AllToAll(const void* in, void* out, size_t count, DType dtype,
                                 CallOptions options = {});
  // Sends from one rank to another. A Send may end before the receiver has received, or wait for
  // it. Two ranks that send to each other must use SendRecv, whose halves run concurrently (`to`
  // and `from` may differ; in place is allowed, but not on devices).
  std::shared_ptr<Work> Send(const void* in, size_t count, DType dtype, int to,
                             CallOptions options = {});
  std::shared_ptr<Work> Recv(void* out, size_t count, DType dtype, int from,
                             CallOptions options = {});
  std::shared_ptr<Work> SendRecv(const void* in, int to, void* out, int from, size_t count,
                                 DType dtype, CallOptions options = {});
  // Done when every rank has started it.
  std::shared_ptr<Work> Barrier(CallOptions options = {});
};

}  // namespace tandem::collective
