// An allreduce that one operator of a plan begins and another operator ends, in the same step or a
// later step.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/require.h"
#include "kernels/exec/comm.h"

namespace tandem::trainer {

// The handler completes this object when the allreduce has ended. End passes the result on to the
// operator that waits for it. Each Begin needs an End before the next Begin, or a Wait.
// Thread-safe.
class OverlappedFlight final : public exec::CommDone {
 public:
  using Done = std::function<void(const Status&)>;

  void Begin() TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    TD_REQUIRE(state_ != State::kFlying);
    state_ = State::kFlying;
  }

  void Complete(Status status) override TD_EXCLUDES(mu_) {
    Done waiter;
    {
      MutexLock lock(mu_);
      TD_REQUIRE(state_ == State::kFlying);
      waiter = std::exchange(waiter_, nullptr);
      state_ = waiter ? State::kNone : State::kEnded;
      status_ = status;
      ended_.NotifyAll();
    }
    if (waiter) waiter(status);
  }

  // Calls `done` with the result of the allreduce when it has ended, at once if it has already
  // ended. Calls `done` with OK if no allreduce has begun since the last End. `done` must not
  // block.
  void End(Done done) TD_EXCLUDES(mu_) {
    Status status;
    {
      MutexLock lock(mu_);
      TD_REQUIRE(!waiter_);
      if (state_ == State::kFlying) {
        waiter_ = std::move(done);
        return;
      }
      if (std::exchange(state_, State::kNone) == State::kEnded) status = status_;
    }
    done(status);
  }

  bool in_flight() TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return state_ == State::kFlying;
  }

  // Blocks until no allreduce is in flight, and returns the result of the last one. A later End
  // still returns the result. DEADLINE_EXCEEDED: the allreduce runs on after `deadline`.
  Status WaitUntilEnded(Time deadline) TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (state_ == State::kFlying) {
      if (SteadyNow() >= deadline) {
        return DeadlineExceeded("the average of a fragment did not end in time [TD3006]");
      }
      ended_.WaitUntil(mu_, deadline);
    }
    return state_ == State::kEnded ? status_ : OkStatus();
  }

 private:
  enum class State : uint8_t { kNone, kFlying, kEnded };

  Mutex mu_;
  CondVar ended_;
  State state_ TD_GUARDED_BY(mu_) = State::kNone;
  Status status_ TD_GUARDED_BY(mu_);
  Done waiter_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
