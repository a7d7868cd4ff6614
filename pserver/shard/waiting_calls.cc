#include "pserver/shard/waiting_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/step_number.h"

namespace tandem::pserver {

void WaitingCalls::AddInit(InitCall call, ReadyAnswers& ready) {
  if (state_.initialised()) {
    ready.push_back(Reply<uint64_t>(std::move(call.done), state_.version));
  } else if (init_calls_.size() >= init_calls_.kCallsMax) {
    ready.push_back(Reply<uint64_t>(
        std::move(call.done),
        ResourceExhausted("%d calls already wait for the initial parameters, which is the maximum",
                          init_calls_.size())));
  } else {
    init_calls_.Add(std::move(call));
  }
}

void WaitingCalls::AddPull(PullCall call, ReadyAnswers& ready) {
  const auto answer = [&](StatusOr<PullResult> result) {
    ready.push_back(Reply<PullResult>(std::move(call.done), std::move(result)));
  };
  if (reader_.CanAnswer(call.query)) return answer(reader_.Read(call.query));
  if (state_.initialised()) {
    if (const Status here = reader_.CheckRowsHere(call.query); !here.ok()) return answer(here);
  }
  if (pull_calls_.size() >= pull_calls_.kCallsMax) {
    return answer(
        ResourceExhausted("%d pulls already wait, which is the maximum", pull_calls_.size()));
  }
  if (call.query.observer && pull_calls_.observers() >= kObserversMax) {
    return answer(
        ResourceExhausted("%d pulls of readers already wait, which is the maximum [TD4042]; hint: "
                          "try again later, or use a read replica",
                          kObserversMax));
  }
  pull_calls_.Add(std::move(call));
}

void WaitingCalls::EnterBarrier(const std::string& name, NamedBarriers::Call call,
                                ReadyAnswers& ready) {
  barriers_.Enter(name, std::move(call), ready);
}

void WaitingCalls::Wake(ReadyAnswers& ready) {
  if (!state_.initialised()) return;
  init_calls_.TakeIf([](const InitCall&) { return true; },
                     [&](InitCall& call) {
                       ready.push_back(Reply<uint64_t>(std::move(call.done), state_.version));
                     });
  pull_calls_.TakeIf(
      [&](const PullCall& call) { return reader_.CanAnswer(call.query); },
      [&](PullCall& call) {
        counters_.pull_wait.Observe(Seconds(state_.clock.Now() - call.since));
        ready.push_back(Reply<PullResult>(std::move(call.done), reader_.Read(call.query)));
      });
}

void WaitingCalls::Leave(const void* tag, ReadyAnswers& ready) {
  init_calls_.Leave(tag, ready);
  pull_calls_.Leave(tag, ready);
  barriers_.Leave(tag, ready);
}

bool WaitingCalls::HasReplaced() const {
  return init_calls_.HasReplaced() || pull_calls_.HasReplaced() || barriers_.HasReplaced();
}

void WaitingCalls::FailReplaced(ReadyAnswers& ready) {
  init_calls_.FailReplaced(ready);
  pull_calls_.FailReplaced(ready);
  barriers_.FailReplaced(ready);
}

void WaitingCalls::FailMovedPulls(ReadyAnswers& ready) {
  pull_calls_.FailIf([&](const PullCall& call) { return reader_.CheckHere(call.query); }, ready);
}

void WaitingCalls::FailAll(const Status& status, ReadyAnswers& ready) {
  init_calls_.FailAll(status, ready);
  pull_calls_.FailAll(status, ready);
  barriers_.FailAll(status, ready);
}

void WaitingCalls::Expire(Time now, const Status& lost, ReadyAnswers& ready) {
  init_calls_.FailIf(
      [&](const InitCall& call) {
        return call.deadline > now ? OkStatus() : InitDeadline(call, now);
      },
      ready);
  pull_calls_.FailIf(
      [&](const PullCall& call) {
        if (call.deadline > now) return OkStatus();
        return lost.ok() ? PullDeadline(call, now) : lost;
      },
      ready);
  barriers_.Expire(now, ready);
}

Time WaitingCalls::NextDeadline() const {
  return std::min(
      {init_calls_.NextDeadline(), pull_calls_.NextDeadline(), barriers_.NextDeadline()});
}

Status WaitingCalls::InitDeadline(const InitCall& call, Time now) const {
  return DeadlineExceeded(
      "the wait for the initial parameters timed out after %.1f s: trainer 0 sent only %d of %d "
      "slices [TD4007]",
      Seconds(now - call.since), state_.params->progress().count(),
      state_.params->progress().size());
}

Status WaitingCalls::PullDeadline(const PullCall& call, Time now) const {
  const double waited = Seconds(now - call.since);
  if (!state_.initialised()) {
    return DeadlineExceeded(
        "pull: the wait for the initial parameters timed out after %.1f s: trainer 0 sent only %d "
        "of %d slices [TD4007]",
        waited, state_.params->progress().count(), state_.params->progress().size());
  }
  if (const auto behind = state_.trainers.Behind(call.query.min_step); !behind.empty()) {
    return DeadlineExceeded(
        "pull: timed out after %.1f s: %s did not reach step %d (max_staleness) [TD4007]", waited,
        TrainerList(behind), DisplayStep(call.query.min_step));
  }
  if (state_.sync()) return StepDeadline(call, now);
  return DeadlineExceeded(
      "pull of version %d: timed out after %.1f s: this server has only reached version %d "
      "[TD4007]",
      call.query.min_version, waited, state_.version);
}

Status WaitingCalls::StepDeadline(const PullCall& call, Time now) const {
  const std::vector<int> missing = state_.MissingAtStep();
  const bool all = std::ssize(missing) == state_.trainers.size();
  // If only one trainer is missing, names its missing gradients: the client that waits may itself
  // be this trainer.
  std::string lacks;
  if (missing.size() == 1 && !state_.params->step().GaveNothing(missing[0])) {
    lacks = ", which did not push a gradient of " +
            absl::StrJoin(state_.params->step().Lacks(missing[0]), ", ");
  }
  return DeadlineExceeded(
      "pull of version %d: timed out after %.1f s: this server waited for %s at step %d%s%s "
      "[TD4007]",
      call.query.min_version, Seconds(now - call.since), TrainerList(missing),
      DisplayStep(state_.version), lacks, all ? "" : "; the others arrived");
}

std::vector<int> WaitingCalls::Awaited() const {
  const TrainerRegistry& trainers = state_.trainers;
  std::vector<bool> awaited(static_cast<size_t>(trainers.size()), false);
  if (!init_calls_.empty() && !awaited.empty()) awaited[0] = true;
  bool trainer_waits = false;
  for (const PullCall& call : pull_calls_) {
    // A reader waits for the next change, whenever it comes, and not for a trainer.
    if (call.query.observer) continue;
    trainer_waits = true;
    for (const int r : trainers.Behind(call.query.min_step)) awaited[r] = true;
  }
  if (trainer_waits && state_.sync() && state_.initialised()) {
    for (const int r : state_.MissingAtStep()) awaited[r] = true;
  }
  for (const int r : barriers_.Missing()) awaited[r] = true;
  std::vector<int> list;
  for (int r = 0; r < trainers.size(); ++r) {
    if (awaited[r] && !trainers.Waits(r)) list.push_back(r);
  }
  return list;
}

}  // namespace tandem::pserver
