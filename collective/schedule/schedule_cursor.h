// The progress of one rank through its schedule: which bytes it may send or overwrite now. The
// runner (schedule_runner.h) and the simulator (step_simulator.h) use it.
#pragma once

#include <cstddef>

#include "collective/schedule/schedule.h"
#include "common/base/require.h"

namespace tandem::collective {

// Tracks the sent and the received bytes of one schedule. Not thread-safe.
class ScheduleCursor {
 public:
  ScheduleCursor() = default;
  // `schedule` is not owned and must outlive this.
  explicit ScheduleCursor(const Schedule& schedule) : schedule_(&schedule) { SkipIdle(); }

  // The schedule step of the running half; null if all halves of this direction are done.
  const Step* sending() const { return At(send_step_); }
  const Step* receiving() const { return At(recv_step_); }
  bool done() const { return sending() == nullptr && receiving() == nullptr; }

  // Bytes [send_at, send_end) may be sent now, and bytes [land_at, land_end) overwritten. REQUIRES
  // that this half is running.
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

  // REQUIRES: these bytes may be sent or overwritten now.
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
  // Continues with the next half of this direction. REQUIRES that the running half is complete.
  void NextSend();
  void NextRecv();

 private:
  const Step* At(size_t step) const {
    return schedule_ == nullptr || step == schedule_->size() ? nullptr : &(*schedule_)[step];
  }
  void SkipIdle();

  const Schedule* schedule_ = nullptr;
  size_t send_step_ = 0, sent_ = 0;    // bytes of the schedule step that have been sent
  size_t recv_step_ = 0, landed_ = 0;  // bytes of the schedule step that are in the buffer
};

}  // namespace tandem::collective
