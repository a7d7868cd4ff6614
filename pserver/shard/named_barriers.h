// Barriers of a job's trainers, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pserver/shard/wait_list.h"

namespace tandem {

// A generation of a barrier is released when all trainers that are not gone (TrainerRegistry) wait
// in it; in between nobody waits in one for which nobody else is missing. A call counts while its
// trainer is the one that called: not once it was started again. Names in which nobody waits are
// forgotten when there are too many, the one that was used longest ago first. Not thread-safe (the
// shard's lock guards it).
class NamedBarriers {
 public:
  struct Call : WaitingCall {
    uint64_t generation = 0;  // counts the uses of a name from 1
    std::function<void(Status)> done;
  };

  // All must outlive it. `waited` gets the seconds that a call which was released waited.
  NamedBarriers(TrainerRegistry& roster, const Clock& clock, Histogram& waited)
      : roster_(roster), clock_(clock), waited_(waited) {}

  // The call waits in `name`, is released by it with others, or has its answer at once: where its
  // generation was released already, or it is refused.
  void Enter(const std::string& name, Call call, ReadyAnswers& ready);
  // Releases what can be. To be called whenever a trainer is gone.
  void Wake(ReadyAnswers& ready);

  // Calls whose trainer was started again are told so.
  bool HasReplaced() const;
  void FailReplaced(ReadyAnswers& ready);
  void Leave(const void* tag, ReadyAnswers& ready);  // as WaitList

  // Trainers for which somebody waits.
  std::vector<int> Missing() const;
  void Expire(Time now, ReadyAnswers& ready);  // DEADLINE_EXCEEDED naming who is missing
  void FailAll(const Status& status, ReadyAnswers& ready);
  Time NextDeadline() const;  // Time::max(): nobody waits

 private:
  struct Barrier {
    explicit Barrier(TrainerRegistry& roster) : calls(roster) {}
    uint64_t released = 0;  // the newest generation that was
    uint64_t used = 0;      // when it was entered last, counted in calls
    WaitList<Call> calls;
  };
  using Barriers = std::map<std::string, Barrier>;
  Status Check(const std::string& name, const Call& call) const;
  Barriers::const_iterator Oldest() const;  // in which nobody waits; end(): there is none
  static std::set<uint64_t> Generations(const Barrier& barrier);  // in which somebody waits
  std::vector<int> MissingAt(const Barrier& barrier, uint64_t generation) const;

  TrainerRegistry& roster_;
  const Clock& clock_;
  Histogram& waited_;
  Barriers barriers_;
  uint64_t entered_ = 0;  // calls
};

}  // namespace tandem
