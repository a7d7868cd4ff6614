// The communications of one plan while an executor runs it: starts, ends and times.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kernels/exec/comm.h"

namespace tandem::exec {

// Use: in each iteration, the executor starts or skips every communication, in the order of their
// numbers. Thread safety: several threads may call Start, Skip and Wait if the dependencies of the
// plan's steps order the starts. The executor's thread makes all other calls.
class RunningComms {
 public:
  // `nodes`: by communication, its index in `handler`. If `nodes` is empty, `handler` may be
  // nullptr.
  RunningComms(CommHandler* handler, std::span<const int> nodes);

  // Starts communication `comm` of iteration `step`. REQUIRES: all communications with smaller
  // numbers were started or skipped.
  void Start(int comm, int64_t step);
  // Marks communication `comm` as completed, so that Wait returns at once. REQUIRES: all
  // communications with smaller numbers were started or skipped.
  void Skip(int comm);
  // Blocks until communication `comm` has ended, at most for the handler's timeout. Returns the
  // status of the communication. REQUIRES: communication `comm` was started or skipped.
  Status Wait(int comm);
  // Ends an iteration and adds its communication times. REQUIRES: all communications have ended.
  void EndIteration();
  // Ends a failed iteration. Blocks until every started communication has ended, at most for the
  // handler's timeout, because running communications use the plan's memory.
  void Abandon();

  // Returns the time at which communication `comm` ended. REQUIRES: Wait(comm) has returned.
  Time ended(int comm);
  // Returns the times of all iterations. `threads`: number of the executor's threads.
  CommTimes times(int threads) const;

 private:
  struct Comm {
    int node = 0;  // index of the communication's node in the handler
    CommDone done;
    Time began;  // start time of the communication in this iteration
  };
  Comm& at(int comm);

  CommHandler* const handler_;
  std::vector<Comm> comms_;
  int started_ = 0;  // communications of this iteration that were started or skipped
  // Time that threads spent in Wait, in ns, summed over all threads.
  std::atomic<int64_t> waited_ns_ = 0;
  double on_way_ = 0;  // seconds in which at least one communication was running
};

}  // namespace tandem::exec
