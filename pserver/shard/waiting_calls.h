// The calls that wait in a shard: for initial values, for a version or a step, and in barriers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pserver/shard/pull_reader.h"
#include "pserver/shard/shard_state.h"
#include "pserver/shard/trainers/named_barriers.h"
#include "pserver/shard/trainers/wait_list.h"
#include "pserver/state/shard_counters.h"

namespace tandem::pserver {

// The waiting calls of one shard. Each call gets exactly one reply, which a function of this class
// appends to `ready`. Not thread-safe (the shard's lock guards it).
class WaitingCalls {
 public:
  // A call that waits for the initial values. `done` receives the version of the parameters.
  struct InitCall : WaitingCall {
    std::function<void(StatusOr<uint64_t>)> done;
  };
  struct PullCall : WaitingCall {
    PullQuery query;
    std::function<void(StatusOr<PullResult>)> done;
  };

  // All arguments must outlive this object.
  WaitingCalls(ShardState& state, PullReader& reader, ShardCounters& counters)
      : state_(state),
        reader_(reader),
        counters_(counters),
        init_calls_(state.trainers),
        pull_calls_(state.trainers),
        barriers_(state.trainers, state.clock, counters.barrier_wait) {}

  // AddInit, AddPull and EnterBarrier add a call. Either the call waits, or its reply is appended
  // to `ready`. RESOURCE_EXHAUSTED in the reply: too many calls wait.
  void AddInit(InitCall call, ReadyAnswers& ready);
  void AddPull(PullCall call, ReadyAnswers& ready);
  void EnterBarrier(const std::string& name, NamedBarriers::Call call, ReadyAnswers& ready);

  // Replies to the calls whose initial values, version or step the server has now.
  void Wake(ReadyAnswers& ready);
  void WakeBarriers(ReadyAnswers& ready) { barriers_.Wake(ready); }
  // Ends the wait of the call with this tag, because its caller has disconnected. The call fails
  // with CANCELLED.
  void Leave(const void* tag, ReadyAnswers& ready);

  // HasReplaced returns whether the trainer of a waiting call was restarted after the call.
  // FailReplaced fails such calls.
  bool HasReplaced() const;
  void FailReplaced(ReadyAnswers& ready);
  // Fails pulls whose rows or slices moved away.
  void FailMovedPulls(ReadyAnswers& ready);
  void FailAll(const Status& status, ReadyAnswers& ready);
  // Fails the calls whose deadline has passed. `lost`: the error for pulls. If `lost` is OK, the
  // error of a pull names what the pull waited for.
  void Expire(Time now, const Status& lost, ReadyAnswers& ready);
  Time NextDeadline() const;  // earliest deadline; Time::max(): no call waits
  // Returns the trainers for which calls wait. Omits trainers that have a waiting call on this
  // server: these trainers are alive, and wait for other trainers.
  std::vector<int> Awaited() const;

 private:
  // Maximum number of waiting pulls of observers, so that readers leave room for trainers, and each
  // update checks few of their calls.
  static constexpr size_t kObserversMax = 1024;

  Status InitDeadline(const InitCall& call, Time now) const;
  Status PullDeadline(const PullCall& call, Time now) const;
  Status StepDeadline(const PullCall& call, Time now) const;

  ShardState& state_;
  PullReader& reader_;
  ShardCounters& counters_;
  WaitList<InitCall> init_calls_;
  WaitList<PullCall> pull_calls_;
  NamedBarriers barriers_;
};

// Returns a function that sends a reply when the changes before the reply are logged. If `result`
// is an error, the function sends this error even if the log failed.
template <typename T>
WriteAheadLog::Written Reply(std::function<void(StatusOr<T>)> done, StatusOr<T> result) {
  return [done = std::move(done), result = std::move(result)](const Status& written) {
    done(!result.ok() || written.ok() ? result : written);
  };
}

}  // namespace tandem::pserver
