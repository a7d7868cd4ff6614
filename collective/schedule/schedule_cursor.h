// How far one rank is with its table: which bytes may go out, and which may land, now. The runner
// (schedule_runner.h) and the simulator (step_simulator.h) go by it.
#pragma once

#include <cstddef>

#include "collective/schedule/schedule.h"

namespace tandem {

class ScheduleCursor {
 public:
  ScheduleCursor() = default;
  // `schedule` is not owned and must outlive this.
  explicit ScheduleCursor(const Schedule& schedule) : schedule_(&schedule) { SkipIdle(); }

  // The step whose half is under way; null when all of that direction are done.
  const Step* sending() const { return At(send_step_); }
  const Step* receiving() const { return At(recv_step_); }
  bool done() const { return sending() == nullptr && receiving() == nullptr; }

  // Bytes [send_at, send_end) may go out now, and [land_at, land_end) be overwritten. REQUIRES:
  // that half is under way.
  size_t send_at() const { return sending()->send.begin + sent_; }
  size_t send_end() const;
  size_t land_at() const { return receiving()->recv.begin + landed_; }
  size_t land_end() const;

  void Sent(size_t bytes) { sent_ += bytes; }
  void Landed(size_t bytes) { landed_ += bytes; }
  bool all_sent() const { return sent_ == sending()->send.size(); }
  bool all_landed() const { return landed_ == receiving()->recv.size(); }
  // Go on behind the half under way, of which everything went.
  void NextSend();
  void NextRecv();

 private:
  const Step* At(size_t step) const {
    return schedule_ == nullptr || step == schedule_->size() ? nullptr : &(*schedule_)[step];
  }
  void SkipIdle();

  const Schedule* schedule_ = nullptr;
  size_t send_step_ = 0, sent_ = 0;    // bytes of the step that have gone out
  size_t recv_step_ = 0, landed_ = 0;  // bytes of the step that are in the buffer
};

}  // namespace tandem
