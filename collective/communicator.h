// The interface of a communicator: a fixed set of ranks that run collective operations together.
// Communicators exist for host memory (in-process, TCP, shared memory) and for devices (NCCL).
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

// The collective operations. Their numbers are in message headers between processes, so a number
// must never get another meaning.
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

const char* Name(CollectiveOp op);  // returns the name of an operation, such as "AllReduce"

// The arguments of one collective operation. Every rank of a communicator makes the same calls in
// the same order. The fields op, count, dtype, reduce and root must be equal on all ranks; a
// difference is an error on all ranks. A kSendRecv involves two ranks only. The n-th send from rank
// a to rank b matches the n-th receive on rank b from rank a. Both ranks must make these two calls
// between the same collectives.
struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  // Input and output buffers in host memory or in memory of the communicator's device. The buffers
  // must be aligned to the element size; the caller owns them. Until the Work is done, both buffers
  // must stay valid, and nothing else may use them. A Wait that timed out does not end the
  // operation. An operation in place has `in == out`, or one buffer is part of the other (see the
  // calls below). Any other overlap is an error. After a failure the content of `out` is undefined.
  const void* in = nullptr;
  void* out = nullptr;
  // Number of elements that each rank contributes. kReduceScatter: number of elements that each
  // rank receives. kAllToAll: number of elements that each rank sends to each rank.
  size_t count = 0;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  // Number of ranks in a group, for kReduce and kBroadcast of host memory. Ranks [k * group, (k +
  // 1) * group) form group k. The root of each group is its member number `root`. In kReduce each
  // root gets the reduction over all ranks of all groups. In kBroadcast each root sends to its own
  // group. 0: no groups.
  int group = 0;
  // For kSendRecv: the call sends `in` to rank `to`, and receives `out` from rank `from`. `to` -1:
  // the call does not send and ignores `in`. `from` -1: the call does not receive and ignores
  // `out`.
  int to = -1, from = -1;
  std::string what;  // name of the variable or gradient bucket, for messages
  // Further pieces of memory that the same call processes in the same way, for variables of a
  // gradient bucket that are not contiguous. Only communicators of devices support them.
  struct Piece {
    const void* in;
    void* out;
    size_t count;
  };
  std::vector<Piece> more;
  // The operation and its communicator fail if the operation has not ended by this time.
  // Time::max(): use the communicator's operation timeout, counted from the start of the operation.
  Time deadline = Time::max();
};
// Returns a text for messages. Example: `AllReduce(sum, f32[1000]) of "fc_0.w_0@GRAD"`.
std::string ToString(const Collective& call);

// Checks the arguments of `call`. INVALID_ARGUMENT: no communicator of `size` ranks accepts these
// arguments on rank `rank`.
Status CheckCall(const Collective& call, int rank, int size);

// The transport of collectives between ranks in different processes.
enum class TransportKind : uint8_t {
  kAuto,          // shared memory if all ranks are on one host, otherwise TCP
  kTcp,           // TCP, even if all ranks are on one host
  kSharedMemory,  // shared memory; if a rank cannot use it, an error that names the rank
};

// A running operation. Thread-safe.
class Work {
 public:
  virtual ~Work() = default;
  // Blocks until the operation has ended, and returns its status. DEADLINE_EXCEEDED: `deadline` has
  // passed, but the operation still runs and uses its buffers.
  virtual Status Wait(Time deadline) = 0;
  // Calls `done` once, when the operation has ended. `done` runs on the communication thread, or on
  // the calling thread if the operation has already ended. `done` must not block and must not
  // destroy the communicator. It may start further operations.
  virtual void OnDone(std::function<void(const Status&)> done) = 0;
  virtual bool finished() const = 0;
};

struct CallOptions {
  std::string what;
  Time deadline = Time::max();
};

// Runs the collectives of one rank. Functions that return a Work only queue the operation. The
// communicator's own thread runs the operations in call order. Thread-safe, but the order of calls
// must be the same on all ranks. If the communicator rejects a call, only the Work of this call
// fails, and the other ranks are not notified. INVALID_ARGUMENT: an argument is invalid.
// RESOURCE_EXHAUSTED: the queue is full. With host memory, a call first waits for space in the
// queue, up to the operation timeout. The failure of a queued operation is final: all pending and
// later operations of this rank fail with the same cause, and the other ranks are notified. The
// destructor aborts all pending operations.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& name() const = 0;  // name for messages, such as "tcp communicator 0"
  virtual std::shared_ptr<Work> Start(Collective call) = 0;
  // Runs `call` and waits for its end, as Start and Wait do. A communicator of host memory runs
  // `call` on the calling thread if no other operation is pending, which saves two thread switches.
  virtual Status Call(Collective call) { return Start(std::move(call))->Wait(Time::max()); }
  // Returns OK, or the failure that ended this communicator.
  virtual Status Health() const = 0;
  // Allocates memory that this communicator transfers fastest. If the ranks share memory, other
  // ranks access the buffer without a copy. The buffer may outlive the communicator. Its initial
  // content is undefined.
  virtual StatusOr<Buffer> Allocate(size_t bytes);
  // Fails all pending and later operations of all ranks with `reason`. Does not block.
  virtual void Abort(const std::string& reason) = 0;

  // Reduces element by element: out[i] is the reduction of in[i] over all ranks. The result is
  // bitwise equal on every rank. `dtype` is f32, f16, bf16, i32 or i64.
  std::shared_ptr<Work> AllReduce(const void* in, void* out, size_t count, DType dtype,
                                  ReduceOp reduce, CallOptions options = {});
  // Like AllReduce, but only rank `root` gets the result in `out`, with the same bits as in
  // AllReduce. On the other ranks `out` is scratch memory of the same size, and may be equal to
  // `in`.
  std::shared_ptr<Work> Reduce(const void* in, void* out, size_t count, DType dtype,
                               ReduceOp reduce, int root, CallOptions options = {});
  // Copies `data` of rank `root` to `data` of all other ranks, for any `dtype`.
  std::shared_ptr<Work> Broadcast(void* data, size_t count, DType dtype, int root,
                                  CallOptions options = {});
  // Collects the inputs: elements [r * count, (r + 1) * count) of `out` become the `in` of rank r.
  // In place: in == out + rank * count elements.
  std::shared_ptr<Work> AllGather(const void* in, void* out, size_t count, DType dtype,
                                  CallOptions options = {});
  // Reduces `in`, which has size() * count elements, and sends one part of the result to each rank.
  // `out` becomes elements [rank * count, (rank + 1) * count) of the AllReduce result, with the
  // same bits. In place: out == in + rank * count elements; the other elements of `in` are
  // undefined afterwards.
  std::shared_ptr<Work> ReduceScatter(const void* in, void* out, size_t count, DType dtype,
                                      ReduceOp reduce, CallOptions options = {});
  // Exchanges data with each rank r: sends elements [r * count, (r + 1) * count) of `in` to rank r,
  // and stores the data from rank r in the elements of `out` with the same indices. Both buffers
  // have size() * count elements. `in` and `out` may be equal, except on devices.
  std::shared_ptr<Work> AllToAll(const void* in, void* out, size_t count, DType dtype,
                                 CallOptions options = {});
  // Send and Recv transfer data from one rank to another. A Send may end before the receiver has
  // received the data, or wait for the receiver. Two ranks that send to each other must use
  // SendRecv, which sends and receives concurrently. `to` and `from` may be different ranks. `in`
  // and `out` may be equal, except on devices.
  std::shared_ptr<Work> Send(const void* in, size_t count, DType dtype, int to,
                             CallOptions options = {});
  std::shared_ptr<Work> Recv(void* out, size_t count, DType dtype, int from,
                             CallOptions options = {});
  std::shared_ptr<Work> SendRecv(const void* in, int to, void* out, int from, size_t count,
                                 DType dtype, CallOptions options = {});
  // The Work is done after every rank has started the barrier.
  std::shared_ptr<Work> Barrier(CallOptions options = {});
};

}  // namespace tandem::collective
