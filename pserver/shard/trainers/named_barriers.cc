#include "pserver/shard/trainers/named_barriers.h"

#include <algorithm>
#include <utility>

namespace tandem::pserver {
namespace {

constexpr size_t kBarriersMax = 1024;

}  // namespace

Status NamedBarriers::Check(const std::string& name, const Call& call) const {
  if (name.empty() || name.size() > 200) {
    return InvalidArgument("the name of a barrier has %d characters, expected 1 to 200",
                           name.size());
  }
  if (call.generation == 0)
    return InvalidArgument("barrier: the request has generation 0, expected at least 1");
  const auto found = barriers_.find(name);
  const bool room = barriers_.size() < kBarriersMax || Oldest() != barriers_.end();
  if (found == barriers_.end() && !room) {
    return ResourceExhausted(
        "barrier \"%s\": trainers already wait in %d barriers, which is the maximum", name,
        kBarriersMax);
  }
  if (roster_[call.trainer].completed) {
    return FailedPrecondition(
        "trainer %d enters barrier \"%s\", but this trainer has already completed the job",
        call.trainer, name);
  }
  if (found != barriers_.end() && found->second.calls.size() >= WaitList<Call>::kCallsMax) {
    return ResourceExhausted("barrier \"%s\": %d calls already wait, which is the maximum", name,
                             WaitList<Call>::kCallsMax);
  }
  return OkStatus();
}

void NamedBarriers::Enter(const std::string& name, Call call, ReadyAnswers& ready) {
  if (Status refused = Check(name, call); !refused.ok()) {
    ready.push_back([done = std::move(call.done), refused](const Status&) { done(refused); });
    return;
  }
  if (!barriers_.contains(name) && barriers_.size() >= kBarriersMax) barriers_.erase(Oldest());
  Barrier& barrier = barriers_.try_emplace(name, roster_).first->second;
  barrier.used = ++entered_;
  if (call.generation <= barrier.released) {
    ready.push_back(std::move(call.done));
    return;
  }
  barrier.calls.Add(std::move(call));
  Wake(ready);
}

NamedBarriers::Barriers::const_iterator NamedBarriers::Oldest() const {
  auto oldest = barriers_.end();
  for (auto it = barriers_.begin(); it != barriers_.end(); ++it) {
    if (!it->second.calls.empty()) continue;
    if (oldest == barriers_.end() || it->second.used < oldest->second.used) oldest = it;
  }
  return oldest;
}

std::set<uint64_t> NamedBarriers::Generations(const Barrier& barrier) {
  std::set<uint64_t> generations;
  for (const Call& call : barrier.calls) {
    if (!barrier.calls.IsReplaced(call)) generations.insert(call.generation);
  }
  return generations;
}

std::vector<int> NamedBarriers::MissingAt(const Barrier& barrier, uint64_t generation) const {
  std::vector<bool> here(static_cast<size_t>(roster_.size()));
  for (const Call& call : barrier.calls) {
    const bool counts = call.generation == generation && !barrier.calls.IsReplaced(call);
    if (counts) here[static_cast<size_t>(call.trainer)] = true;
  }
  std::vector<int> missing;
  for (int r = 0; r < roster_.size(); ++r) {
    if (!here[static_cast<size_t>(r)] && !roster_.Gone(r)) missing.push_back(r);
  }
  return missing;
}

void NamedBarriers::Wake(ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) {
    for (const uint64_t generation : Generations(barrier)) {
      if (!MissingAt(barrier, generation).empty()) continue;
      barrier.released = std::max(barrier.released, generation);
      barrier.calls.TakeIf(
          [&, &barrier = barrier](const Call& call) {
            return call.generation <= generation && !barrier.calls.IsReplaced(call);
          },
          [&](Call& call) {
            waited_.Observe(Seconds(clock_.Now() - call.since));
            ready.push_back(std::move(call.done));
          });
    }
  }
}

std::vector<int> NamedBarriers::Missing() const {
  std::vector<int> missing;
  for (const auto& [name, barrier] : barriers_) {
    for (const uint64_t generation : Generations(barrier)) {
      for (int r : MissingAt(barrier, generation)) missing.push_back(r);
    }
  }
  return missing;
}

void NamedBarriers::Expire(Time now, ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) {
    if (barrier.calls.NextDeadline() > now) continue;
    std::map<uint64_t, std::string> missing;
    for (const Call& call : barrier.calls) {
      missing[call.generation] = TrainerList(MissingAt(barrier, call.generation));
    }
    barrier.calls.FailIf(
        [&, &name = name](const Call& call) -> Status {
          if (call.deadline > now) return OkStatus();
          return DeadlineExceeded(
              "barrier \"%s\": timed out after %.1f s: %s did not arrive [TD4007]", name,
              Seconds(now - call.since), missing[call.generation]);
        },
        ready);
  }
}

bool NamedBarriers::HasReplaced() const {
  return std::any_of(barriers_.begin(), barriers_.end(),
                     [](const auto& named) { return named.second.calls.HasReplaced(); });
}

void NamedBarriers::FailReplaced(ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) barrier.calls.FailReplaced(ready);
}

void NamedBarriers::Leave(const void* tag, ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) barrier.calls.Leave(tag, ready);
}

void NamedBarriers::FailAll(const Status& status, ReadyAnswers& ready) {
  for (auto& [name, barrier] : barriers_) barrier.calls.FailAll(status, ready);
}

Time NamedBarriers::NextDeadline() const {
  Time next = Time::max();
  for (const auto& [name, barrier] : barriers_) next = std::min(next, barrier.calls.NextDeadline());
  return next;
}

}  // namespace tandem::pserver
