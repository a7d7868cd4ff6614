// The interface between a plan and communication. Operators marked is_comm are started at their
// position and waited for later, so that the operators between overlap with the communication. The
// trainer implements this with a communicator or pservers, tests with a fake.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/tensor/device.h"
#include "common/tensor/types.h"
#include "kernels/ops/core/op.h"

namespace tandem {

// One tensor of a communication operator. Its memory belongs to the plan or scope and does not move
// while the plan exists.
struct CommTensor {
  std::string var;
  TensorDesc desc;
  void* data;  // null if the operator uses only the description
};

// One communication operator of a plan.
struct CommNode {
  const Op* op;  // its type, attributes and source
  std::vector<CommTensor> in, out;
  Place place;
  Device* device = nullptr;  // the device of `place`; nullptr for the CPU
};

// The completion of one started communication. Thread-safe.
class CommDone {
 public:
  virtual ~CommDone() = default;
  // Call exactly once per Start, from any thread.
  virtual void Complete(Status status) {
    MutexLock lock(mu_);
    status_ = std::move(status);
    ended_ = SteadyNow();
    done_ = true;
    cv_.NotifyAll();
  }
  // DEADLINE_EXCEEDED: it did not end in time. The communication may then still use the memory.
  Status Wait(Time deadline);
  void Reset();
  Time ended() {  // time of completion
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

// Communication times over the steps of an executor, in seconds.
struct CommTimes {
  double on_way = 0;   // time with at least one communication running
  double exposed = 0;  // waiting time of the executor's threads, divided by their number
};

class CommHandler {
 public:
  virtual ~CommHandler() = default;
  // Called for each communication operator while the plan is made, in program order. Returns the
  // index for Start. Fails if the operator is not supported.
  virtual StatusOr<int> Register(const CommNode& node) = 0;
  // Starts node `index` for step `step` and returns at once. `done` is completed later, or before
  // the return. One executor calls this, one call at a time, in the same order in every step and on
  // every rank.
  virtual void Start(int index, int64_t step, CommDone* done) = 0;
  // Limit for a Wait for a node of this handler.
  virtual Duration timeout() const = 0;
};

}  // namespace tandem
