#include "pserver/shard/trainers/trainer_registry.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::pserver {

std::string TrainerList(const std::vector<int>& trainers) {
  if (trainers.empty()) return "no trainer";
  std::string text = trainers.size() == 1 ? "trainer " : "trainers ";
  for (size_t i = 0; i < trainers.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(trainers[i]);
  }
  return text;
}

void TrainerRegistry::Trainer::Replace(uint64_t by_incarnation, uint64_t version) {
  incarnation = by_incarnation;
  taken = applied = SequenceWindow();
  numbers = {};
  completed = false;
  told = 0;
  adopted = version;
  once_adopted = once_steps;
  rolled_back = ahead = false;
}

int64_t TrainerRegistry::Trainer::CountLost(const SentNumbers& reported, uint64_t sequence,
                                            int server) {
  const uint64_t known = SentNumbers::At(numbers.ended, server);
  const uint64_t ended = std::min<uint64_t>(SentNumbers::At(reported.ended, server), INT64_MAX);
  int64_t change = sequence != 0 && sequence <= known ? -1 : 0;
  // No push above `highest` is taken. Below the window, nothing is known.
  const uint64_t highest = taken.highest();
  const uint64_t above = std::max(known, highest);
  if (ended > above) change += static_cast<int64_t>(ended - above);
  const uint64_t window = highest - std::min(highest, SequenceWindow::kSize);
  for (uint64_t n = std::max(known, window) + 1; n <= std::min(ended, highest); ++n) {
    change += taken.Look(n) == SequenceWindow::Seen::kNew;
  }
  lost_pushes += static_cast<uint64_t>(change);
  return change;
}

TrainerRegistry::TrainerRegistry(const Clock& clock, Metrics& metrics)
    : clock_(clock),
      metrics_(metrics),
      waiting_calls_(
          metrics.GetGauge("tandem_pserver_waiting_calls", "Calls that wait for other trainers")),
      lost_trainers_(metrics.GetGauge("tandem_pserver_lost_trainers",
                                      "Lost trainers, for which no call waits")) {}

void TrainerRegistry::Begin(int count) {
  CHECK_EQ(waiting_, 0);
  TD_REQUIRE(count >= 0);
  before_ = std::move(trainers_);
  trainers_.assign(static_cast<size_t>(count), {});
  presence_.assign(static_cast<size_t>(count), {});
  settled_.assign(static_cast<size_t>(count), {});
  for (int r = 0; r < count; ++r) {
    At(r).last_heard = clock_.Now();
    At(r).waited = &metrics_.GetCounter("tandem_pserver_wait_seconds_total",
                                        "Time that a trainer's calls waited for others",
                                        {{"trainer", std::to_string(r)}});
  }
  Settle();
}

void TrainerRegistry::ApplyTaken() {
  for (Trainer& t : trainers_) t.applied = t.taken;
}

void TrainerRegistry::Settle() {
  TD_REQUIRE(settled_.size() == trainers_.size());
  for (int r = 0; r < size(); ++r) {
    const Trainer& t = (*this)[r];
    TrainerPushState& mark = settled_[static_cast<size_t>(r)];
    mark.trainer = r;
    mark.incarnation = t.incarnation;
    mark.completed = t.completed;
    mark.applied = t.applied;
    mark.lost_pushes = t.lost_pushes;
    mark.numbers = t.numbers;
    mark.steps = t.once_steps;
    mark.adopted = t.once_adopted;
    mark.rolled_back = t.rolled_back;
  }
}

void TrainerRegistry::Restore(const std::vector<TrainerPushState>& marks, uint64_t version) {
  for (const TrainerPushState& mark : marks) {
    if (mark.trainer < 0 || mark.trainer >= size()) continue;
    Trainer& t = (*this)[mark.trainer];
    t.incarnation = mark.incarnation;
    t.completed = mark.completed;
    t.taken = t.applied = mark.applied;
    t.lost_pushes = mark.lost_pushes;
    t.numbers = mark.numbers;
    t.once_steps = mark.steps;
    t.once_adopted = mark.adopted;
    t.rolled_back = mark.rolled_back;
  }
  RollBack(version);
}

void TrainerRegistry::RollBack(uint64_t version) {
  for (int r = 0; r < std::min(size(), static_cast<int>(before_.size())); ++r) {
    const Trainer& before = before_[static_cast<size_t>(r)];
    Trainer& t = (*this)[r];
    const bool counts = before.once_steps != 0 || t.once_steps != 0 || before.rolled_back;
    // Also without steps: otherwise a paused process of an incarnation between these two could wake
    // up and push as if it were new.
    if (before.incarnation > t.incarnation) t.Replace(before.incarnation, version);
    if (counts) t.rolled_back = true;
    // The restore undid these pushes; no server has lost them (CountLost).
    if (before.incarnation != t.incarnation) continue;
    t.numbers.Raise({.sent = {}, .ended = before.numbers.ended});
    const bool same = before.incarnation == t.incarnation;
    t.ahead = same && (before.ahead || (before.pushes != 0 && before.last_step >= version));
  }
  before_.clear();
}

void TrainerRegistry::Hear(int trainer) {
  At(trainer).seen = true;
  At(trainer).last_heard = clock_.Now();
}

bool TrainerRegistry::RaiseSteps(int trainer, uint64_t steps) {
  uint64_t& told = (*this)[trainer].told;
  if (steps <= told) return false;
  told = steps;
  return true;
}

void TrainerRegistry::OnReturned(int trainer) {
  TD_REQUIRE(lost(trainer));
  At(trainer).lost = false;
  ShowLost();
  LOG(WARNING) << "trainer " << trainer << " was lost and has recovered";
}

std::vector<int> TrainerRegistry::LoseSilent(Time now, Duration silence_max) {
  std::vector<int> silent;
  for (int r = 0; r < size(); ++r) {
    Presence& p = At(r);
    if (!CanBeLost(r) || now - p.last_heard < silence_max) continue;
    p.lost = true;
    silent.push_back(r);
    LOG(WARNING) << "trainer " << r << " is lost: no call for "
                 << FormatDuration(now - p.last_heard) << " (worker_update_interval_secs); no call "
                 << "waits for it until it recovers";
  }
  if (!silent.empty()) ShowLost();
  return silent;
}

Time TrainerRegistry::NextLoss(Duration silence_max) const {
  Time next = Time::max();
  for (int r = 0; r < size(); ++r) {
    if (CanBeLost(r)) next = std::min(next, last_heard(r) + silence_max);
  }
  return next;
}

void TrainerRegistry::ShowLost() {
  const auto lost =
      std::count_if(presence_.begin(), presence_.end(), [](const Presence& p) { return p.lost; });
  lost_trainers_.Set(static_cast<double>(lost));
}

std::vector<int> TrainerRegistry::Behind(uint64_t steps) const {
  std::vector<int> behind;
  for (int r = 0; r < size(); ++r) {
    if (!Gone(r) && (*this)[r].steps() < steps) behind.push_back(r);
  }
  return behind;
}

void TrainerRegistry::BeginWait(int trainer) {
  if (trainer < 0) return;
  Presence& p = At(trainer);
  if (p.waiting++ == 0) p.waits_since = clock_.Now();
  waiting_calls_.Set(++waiting_);
}

void TrainerRegistry::EndWait(int trainer) {
  if (trainer < 0) return;
  Presence& p = At(trainer);
  TD_REQUIRE(p.waiting > 0 && waiting_ > 0);
  const Time now = clock_.Now();
  if (!Gone(trainer)) p.last_heard = now;
  if (--p.waiting == 0) {
    const double waited = Seconds(now - p.waits_since);
    p.waited->Add(waited);
    p.waited_recently.Add(now, waited);
  }
  waiting_calls_.Set(--waiting_);
}

std::vector<TrainerInfo> TrainerRegistry::Info() const {
  const Time now = clock_.Now();
  std::vector<TrainerInfo> info;
  for (int r = 0; r < size(); ++r) {
    const Trainer& t = (*this)[r];
    const Presence& p = At(r);
    info.push_back({r, p.seen, t.completed, p.lost, t.incarnation, t.pushes, t.last_step, t.skipped,
                    t.lost_pushes, t.once_steps, Waits(r) ? 0 : Seconds(now - p.last_heard),
                    p.waited->Value(), p.waited_recently.Sum(now)});
  }
  return info;
}

}  // namespace tandem::pserver
