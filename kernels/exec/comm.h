// The interface between a plan and communication. A plan starts the communication of each operator
// marked is_comm at the operator's position. The plan waits later for the end of the communication.
// Operators between start and wait overlap with the communication. The trainer implements this
// interface with a communicator or pservers. Tests implement it with a fake.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/tensor/device.h"
#include "common/tensor/types.h"
#include "kernels/ops/core/op.h"

namespace tandem::exec {

// One tensor of a communication operator. Its memory belongs to the plan or scope and does not move
// while the plan exists.
struct CommTensor {
  std::string var;
  TensorDesc desc;
  void* data;  // memory of the tensor; nullptr: the operator uses only `desc`
};

// One communication operator of a plan.
struct CommNode {
  const ops::Op* op;  // the operator, with its type, attributes and source position
  std::vector<CommTensor> in, out;
  Place place;
  Device* device = nullptr;  // the device of `place`; nullptr for the CPU
};

// The completion of one started communication. Thread-safe.
class CommDone {
 public:
  virtual ~CommDone() = default;
  // The handler calls Complete exactly once per Start, from any thread.
  virtual void Complete(Status status) {
    MutexLock lock(mu_);
    status_ = std::move(status);
    ended_ = SteadyNow();
    done_ = true;
    cv_.NotifyAll();
  }
  // Blocks until the communication has ended, and returns its status. DEADLINE_EXCEEDED: the
  // communication did not end before `deadline`, and may still use the memory of its tensors.
  Status Wait(Time deadline);
  void Reset();
  Time ended() {  // returns the time at which the communication completed
    MutexLock lock(mu_);
    return ended_;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  bool done_ TD_GUARDED_BY(mu_) = false;
  Status status_ TD_GUARDED_BY(mu_);
  Time ended_ TD_GUARDED_BY(mu_);
};

// Communication times in seconds, summed over all steps of an executor.
struct CommTimes {
  double on_way = 0;  // time in which at least one communication was running
  // Time in which the executor's threads waited for communication, divided by the number of
  // threads.
  double exposed = 0;
};

class CommHandler {
 public:
  virtual ~CommHandler() = default;
  // Registers a communication operator. Plan::Make calls Register in program order. Returns the
  // index that Start expects. Fails if the handler does not support the operator.
  virtual StatusOr<int> Register(const CommNode& node) = 0;
  // Starts the communication of node `index` in step `step` and returns at once. The handler
  // completes `done` before or after Start returns. One executor makes all calls of Start, one at a
  // time, in the same order in every step and on every rank.
  virtual void Start(int index, int64_t step, CommDone* done) = 0;
  // Returns the longest time that the executor waits for one communication of this handler.
  virtual Duration timeout() const = 0;
};

}  // namespace tandem::exec
