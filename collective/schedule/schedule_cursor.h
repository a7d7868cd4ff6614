// The progress of one rank in its schedule. The cursor determines which bytes the rank may send or
// overwrite now. The runner (schedule_runner.h) and the simulator (step_simulator.h) use it.
#pragma once

#include <cstddef>

#include "collective/schedule/schedule.h"
#include "common/base/require.h"

namespace tandem::collective {

// Tracks which bytes of one schedule were sent and received. Not thread-safe.
class ScheduleCursor {
 public:
  ScheduleCursor() = default;
  // `schedule` is not owned and must outlive this object.
  explicit ScheduleCursor(const Schedule& schedule) : schedule_(&schedule) { SkipIdle(); }

  // Return the step whose send (or receive) is running. Null: all sends (or receives) are complete.
  const Step* sending() const { return At(send_step_); }
  const Step* receiving() const { return At(recv_step_); }
  bool done() const { return sending() == nullptr && receiving() == nullptr; }

  // Bytes [send_at, send_end) may be sent now. Bytes [land_at, land_end) may be overwritten now.
  // REQUIRES: the send, or the receive, is running.
  size_t send_at() const {
    TD_REQUIRE(sending() != nullptr);
    return sending()->send.begin + sent_;
  }
  size_t send_end() const;
  size_t land_at() const {
    TD_REQUIRE(receiving() != nullptr);
    return receiving()->recv.begin + landed_;
  }
  size_t land_end() const;

  // Record sent or received bytes. REQUIRES: these bytes may be sent or overwritten now.
  void Sent(size_t bytes) {
    TD_REQUIRE(send_at() + bytes <= send_end());
    sent_ += bytes;
  }
  void Landed(size_t bytes) {
    TD_REQUIRE(land_at() + bytes <= land_end());
    landed_ += bytes;
  }
  bool all_sent() const { return sent_ == sending()->send.size(); }
  bool all_landed() const { return landed_ == receiving()->recv.size(); }
  // Continue with the next send, or the next receive. REQUIRES: the running send, or receive, is
  // complete.
  void NextSend();
  void NextRecv();

 private:
  const Step* At(size_t step) const {
    return schedule_ == nullptr || step == schedule_->size() ? nullptr : &(*schedule_)[step];
  }
  void SkipIdle();

  const Schedule* schedule_ = nullptr;
  size_t send_step_ = 0, sent_ = 0;    // the step that is sending, and its sent bytes
  size_t recv_step_ = 0, landed_ = 0;  // the step that is receiving, and its received bytes
};

}  // namespace tandem::collective
