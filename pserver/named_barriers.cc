#include "pserver/named_barriers.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

constexpr size_t kBarriersMax = 1024;

}  // namespace

Status NamedBarriers::Check(const std::string& name, const Call& call) const {
  if (name.empty() || name.size() > 200) {
    return InvalidArgument("barrier name of %d characters; expected 1 to 200", name.size());
  }
  if (call.generation == 0) return InvalidArgument("barrier generations count from 1");
  const auto found = barriers_.find(name);
  if (found == barriers_.end() && barriers_.size() >= kBarriersMax) {
    return ResourceExhausted("barrier \"%s\": there are %d barriers already", name, kBarriersMax);
  }
  if (roster_[call.trainer].completed) {
    return FailedPrecondition("trainer %d enters barrier \"%s\" after it completed", call.trainer,
                              name);
  }
  if (found != barriers_.end() && found->second.calls.size() >= WaitList<Call>::kCallsMax) {
    return ResourceExhausted("barrier \"%s\": %d calls wait already", name,
                             WaitList<Call>::kCallsMax);
  }
  return OkStatus();
}

void NamedBarriers::Enter(const std::string& name, Call call, ReadyAnswers& ready) {
  if (Status refused = Check(name, call); !refused.ok()) {
    ready.push_back([done = std::move(call.done), refused](const Status&) { done(refused); });
    return;
  }
  Barrier& barrier = barriers_.try_emplace(name, roster_).first->second;
  if (call.generation <= barrier.released) {
    ready.push_back(std::move(call.done));
    return;
  }
  barrier.calls.Add(std::move(call));
  Wake(ready);
}

std::vector<int> NamedBarriers::MissingAt(const Barrier& barrier) const {
  std::vector<int> missing;
  for (int r = 0; r < roster_.size(); ++r) {
    const bool here = std::any_of(barrier.calls.begin(), barrier.calls.end(),
                                  [r](const Call& call) { return call.trainer == r; });
    if (!here && !roster_.Gone(r)) missing.push_back(r);
  }
  return missing;
}

void NamedBarriers::Wake(ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) {
    if (barrier.calls.empty() || !MissingAt(barrier).empty()) continue;
    const auto all = [](const Call&) { return true; };
    barrier.calls.TakeIf(all, [&, &barrier = barrier](Call& call) {
      barrier.released = std::max(barrier.released, call.generation);
      waited_.Observe(Seconds(clock_.Now() - call.since));
      ready.push_back(std::move(call.done));
    });
  }
}

std::vector<int> NamedBarriers::Missing() const {
  std::vector<int> missing;
  for (const auto& [name, barrier] : barriers_) {
    if (barrier.calls.empty()) continue;
    for (int r : MissingAt(barrier)) missing.push_back(r);
  }
  return missing;
}

void NamedBarriers::Expire(Time now, ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) {
    if (barrier.calls.NextDeadline() > now) continue;
    const std::string missing = TrainerList(MissingAt(barrier));
    barrier.calls.FailIf(
        [&, &name = name](const Call& call) -> Status {
          if (call.deadline > now) return OkStatus();
          return DeadlineExceeded("barrier \"%s\": waiting %.1f s for %s; others arrived [TD4007]",
                                  name, Seconds(now - call.since), missing);
        },
        ready);
  }
}

void NamedBarriers::FailAll(const Status& status, ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) barrier.calls.FailAll(status, ready);
}

Time NamedBarriers::NextDeadline() const {
  Time next = Time::max();
  for (const auto& [name, barrier] : barriers_) next = std::min(next, barrier.calls.NextDeadline());
  return next;
}

}  // namespace tandem
