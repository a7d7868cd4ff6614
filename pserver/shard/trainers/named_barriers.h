// Barriers of a job's trainers, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pserver/shard/trainers/wait_list.h"

namespace tandem::pserver {

// A barrier is used several times; each use has a number (generation). A generation is released
// when all trainers that are not gone (TrainerRegistry::Gone) wait in it. Only calls of a trainer's
// current incarnation count. If there are too many names, the name that was used least recently and
// has no waiting calls is dropped. Not thread-safe (the shard's lock guards it).
class NamedBarriers {
 public:
  struct Call : WaitingCall {
    uint64_t generation = 0;  // number of this use of the barrier, from 1
    std::function<void(Status)> done;
  };

  // All arguments must outlive this object. `waited` records the seconds that released calls
  // waited.
  NamedBarriers(TrainerRegistry& roster, const Clock& clock, Histogram& waited)
      : roster_(roster), clock_(clock), waited_(waited) {}

  // Adds the call to barrier `name`, and releases the barrier if no other trainer is missing. The
  // call gets its reply immediately if its generation was already released, or if the call is
  // rejected.
  void Enter(const std::string& name, Call call, ReadyAnswers& ready);
  // Releases the barriers in which no trainer is missing. Called after a trainer is lost or
  // completes.
  void Wake(ReadyAnswers& ready);

  // HasReplaced returns whether the trainer of a waiting call was restarted after the call.
  // FailReplaced fails such calls.
  bool HasReplaced() const;
  void FailReplaced(ReadyAnswers& ready);
  // Removes the call with this tag, as WaitList::Leave.
  void Leave(const void* tag, ReadyAnswers& ready);

  // Returns the trainers for which calls wait.
  std::vector<int> Missing() const;
  // Fails the calls whose deadline has passed with DEADLINE_EXCEEDED. The message names the missing
  // trainers.
  void Expire(Time now, ReadyAnswers& ready);
  void FailAll(const Status& status, ReadyAnswers& ready);
  Time NextDeadline() const;  // earliest deadline of the waiting calls; Time::max(): no call waits

 private:
  struct Barrier {
    explicit Barrier(TrainerRegistry& roster) : calls(roster) {}
    uint64_t released = 0;  // newest released generation
    uint64_t used = 0;      // value of entered_ at the newest call
    WaitList<Call> calls;
  };
  using Barriers = std::map<std::string, Barrier>;
  Status Check(const std::string& name, const Call& call) const;
  // Least recently used barrier without waiting calls; end(): there is none.
  Barriers::const_iterator Oldest() const;
  static std::set<uint64_t> Generations(const Barrier& barrier);  // generations with waiting calls
  std::vector<int> MissingAt(const Barrier& barrier, uint64_t generation) const;

  TrainerRegistry& roster_;
  const Clock& clock_;
  Histogram& waited_;
  Barriers barriers_;
  uint64_t entered_ = 0;  // number of calls of Enter so far
};

}  // namespace tandem::pserver
