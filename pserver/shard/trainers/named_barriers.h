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

// A use (generation) of a barrier is released when all trainers that are not gone (TrainerRegistry)
// wait in it. A call waits only while other trainers are missing. A call counts while its trainer's
// incarnation is current. Names without waiting calls are dropped when there are too many, the
// least recently used first. Not thread-safe (the shard's lock guards it).
class NamedBarriers {
 public:
  struct Call : WaitingCall {
    uint64_t generation = 0;  // number of this use of the name, from 1
    std::function<void(Status)> done;
  };

  // All must outlive it. `waited` records the seconds that released calls waited.
  NamedBarriers(TrainerRegistry& roster, const Clock& clock, Histogram& waited)
      : roster_(roster), clock_(clock), waited_(waited) {}

  // Adds the call to barrier `name`. It may release the barrier, or get its reply immediately: if
  // its use was already released, or if it is rejected.
  void Enter(const std::string& name, Call call, ReadyAnswers& ready);
  // Releases complete barriers. Call it after a trainer is lost.
  void Wake(ReadyAnswers& ready);

  // Fail the calls of trainers that were restarted.
  bool HasReplaced() const;
  void FailReplaced(ReadyAnswers& ready);
  void Leave(const void* tag, ReadyAnswers& ready);  // as in WaitList

  // Trainers that waiting calls need.
  std::vector<int> Missing() const;
  // DEADLINE_EXCEEDED; the message names the missing trainers
  void Expire(Time now, ReadyAnswers& ready);
  void FailAll(const Status& status, ReadyAnswers& ready);
  Time NextDeadline() const;  // Time::max(): no call waits

 private:
  struct Barrier {
    explicit Barrier(TrainerRegistry& roster) : calls(roster) {}
    uint64_t released = 0;  // newest released use
    uint64_t used = 0;      // number of the call that entered it last
    WaitList<Call> calls;
  };
  using Barriers = std::map<std::string, Barrier>;
  Status Check(const std::string& name, const Call& call) const;
  Barriers::const_iterator Oldest() const;  // without waiting calls; end(): there is none
  static std::set<uint64_t> Generations(const Barrier& barrier);  // uses with waiting calls
  std::vector<int> MissingAt(const Barrier& barrier, uint64_t generation) const;

  TrainerRegistry& roster_;
  const Clock& clock_;
  Histogram& waited_;
  Barriers barriers_;
  uint64_t entered_ = 0;  // number of calls
};

}  // namespace tandem::pserver
