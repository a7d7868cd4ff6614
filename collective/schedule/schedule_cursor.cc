#include "collective/schedule/schedule_cursor.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::collective {
namespace {

bool Overlap(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

size_t ScheduleCursor::send_end() const {
  TD_REQUIRE(sending() != nullptr);
  const Step& step = *sending();
  size_t limit = step.send.end;
  for (size_t r = recv_step_; r < send_step_; ++r) {
    const Step& other = (*schedule_)[r];
    if (other.recv_from < 0 || !Overlap(step.send, other.recv)) continue;
    limit = std::min(limit, other.recv.begin + (r == recv_step_ ? landed_ : 0));
  }
  return std::max(limit, step.send.begin);
}

size_t ScheduleCursor::land_end() const {
  TD_REQUIRE(receiving() != nullptr);
  const Step& step = *receiving();
  size_t limit = step.recv.end;
  for (size_t s = send_step_; s <= recv_step_; ++s) {
    const Step& other = (*schedule_)[s];
    if (other.send_to < 0 || !Overlap(step.recv, other.send)) continue;
    limit = std::min(limit, other.send.begin + (s == send_step_ ? sent_ : 0));
  }
  return std::max(limit, step.recv.begin);
}

void ScheduleCursor::NextSend() {
  TD_REQUIRE(sending() != nullptr && all_sent());
  ++send_step_;
  sent_ = 0;
  SkipIdle();
}

void ScheduleCursor::NextRecv() {
  TD_REQUIRE(receiving() != nullptr && all_landed());
  ++recv_step_;
  landed_ = 0;
  SkipIdle();
}

void ScheduleCursor::SkipIdle() {
  while (send_step_ < schedule_->size() && (*schedule_)[send_step_].send_to < 0) ++send_step_;
  while (recv_step_ < schedule_->size() && (*schedule_)[recv_step_].recv_from < 0) ++recv_step_;
}

}  // namespace tandem::collective
