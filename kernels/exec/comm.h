// Communication seen from a plan: operators marked is_comm are started here and waited for later,
// so that what lies between runs meanwhile. The trainer binds this to a communicator or to
// pservers, tests to a fake.
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

// One tensor of a communication operator. Memory belongs to the plan or scope and stays where it is
// as long as the plan lives.
struct CommTensor {
  std::string var;
  TensorDesc desc;
  void* data;  // null where the operator uses the description alone
};

// One communication operator of a plan.
struct CommNode {
  const Op* op;  // type, attributes, source
  std::vector<CommTensor> in, out;
  Place place;
  Device* device = nullptr;  // of that place, where it is not the CPU
};

// The end of one started communication. Thread-safe.
class CommDone {
 public:
  virtual ~CommDone() = default;
  // Exactly once per Start, from any thread.
  virtual void Complete(Status status) {
    MutexLock lock(mu_);
    status_ = std::move(status);
    ended_ = SteadyNow();
    done_ = true;
    cv_.NotifyAll();
  }
  // DEADLINE_EXCEEDED when it did not end in time. The memory may then still be in use.
  Status Wait(Time deadline);
  void Reset();
  Time ended() {  // when it was completed
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

// What communication took of the steps of an executor, in seconds.
struct CommTimes {
  double on_way = 0;  // in which at least one communication was under way
  double exposed =
      0;  // in which the threads of the executor waited for one, divided by their number
};

class CommHandler {
 public:
  virtual ~CommHandler() = default;
  // Called for each communication operator while the plan is made, in program order; the index
  // given back names it in Start. Refuses what it cannot do.
  virtual StatusOr<int> Register(const CommNode& node) = 0;
  // Starts node `index` for step `step` and returns at once; `done` is completed later (or before
  // returning). Called by one executor, one call at a time, in the same order in every step and on
  // every rank.
  virtual void Start(int index, int64_t step, CommDone* done) = 0;
  // How long a Wait of this handler's nodes may take.
  virtual Duration timeout() const = 0;
};

}  // namespace tandem
