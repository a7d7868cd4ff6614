#include "pserver/shard/trainer_timeouts.h"

#include <algorithm>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {
namespace {

constexpr Duration kTellEvery = std::chrono::seconds(1);

}  // namespace

bool TrainerTimeouts::LosesTrainers() const {
  if (state_.sync() || !state_.initialised()) return false;
  if (state_.options.index == 0 || state_.params->slices().size() != 0) return true;
  for (int b = 0; b < kRowBuckets; ++b) {
    if (state_.Serves(b)) return true;
  }
  return false;
}

std::vector<int> TrainerTimeouts::LoseSilent(Time now) {
  if (!LosesTrainers()) return {};
  return state_.trainers.LoseSilent(now, state_.config.lost_after);
}

std::vector<int> TrainerTimeouts::Unresponsive(Time now, const std::vector<int>& awaited) const {
  std::vector<int> unresponsive;
  for (const int r : awaited) {
    TD_REQUIRE(r >= 0 && r < state_.trainers.size());
    if (now - state_.trainers.last_heard(r) >= state_.silence_max()) unresponsive.push_back(r);
  }
  return unresponsive;
}

Status TrainerTimeouts::CheckResponsive(Time now, const std::vector<int>& unresponsive) const {
  if (unresponsive.empty()) return OkStatus();
  const int r = unresponsive.front();
  const TrainerRegistry::Trainer& t = state_.trainers[r];
  return Aborted(
      "trainer %d is lost: no call for %.1f s (%s); the other trainers wait for this trainer at "
      "step %d [TD4006]; hint: look at its log",
      r, Seconds(now - state_.trainers.last_heard(r)),
      t.pushes != 0 ? absl::StrFormat("its last push was for step %d", DisplayStep(t.last_step))
      : state_.trainers.seen(r) ? "it has not pushed yet"
                                : "it never called",
      DisplayStep(state_.version));
}

Time TrainerTimeouts::NextDeadline(Time calls, const std::vector<int>& awaited) const {
  Time next = calls;
  if (LosesTrainers()) {
    next = std::min(next, state_.trainers.NextLoss(state_.config.lost_after));
  }
  if (next == Time::max()) return next;
  const Time tell = told_ == Time::min() ? told_ : told_ + kTellEvery;
  for (const int r : awaited) {
    next = std::min(next, std::max(state_.trainers.last_heard(r) + state_.silence_max(), tell));
  }
  return next;
}

}  // namespace tandem::pserver
