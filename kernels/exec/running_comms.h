// The communications of one plan while an executor runs it: their start, their end and their times.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "kernels/exec/comm.h"

namespace tandem {

// In each iteration, all communications start or are skipped, in the order of their numbers. Start,
// Skip and Wait may come from several threads if the plan's steps order the starts. All other calls
// come from the executor's thread.
class RunningComms {
 public:
  // `nodes`: the index in `handler`, by communication. `handler` may be nullptr if there are none.
  RunningComms(CommHandler* handler, std::span<const int> nodes);

  // Starts communication `comm` of iteration `step`. REQUIRES: the earlier ones have started.
  void Start(int comm, int64_t step);
  // Marks the communication as completed, so that a wait for it returns at once. The same
  // requirement as for Start.
  void Skip(int comm);
  // Blocks until the communication has ended, up to the handler's timeout. REQUIRES: it has
  // started.
  Status Wait(int comm);
  // Ends an iteration and counts its times. REQUIRES: all communications have ended.
  void EndIteration();
  // Ends a failed iteration. Running communications use the plan's memory, so this blocks until
  // they end or fail from the same cause.
  void Abandon();

  // Returns when communication `comm` ended. REQUIRES: a wait for it has returned.
  Time ended(int comm);
  // Times of all iterations with `threads` threads of the executor.
  CommTimes times(int threads) const;

 private:
  struct Comm {
    int node = 0;  // index in the handler
    CommDone done;
    Time began;  // in this iteration
  };
  Comm& at(int comm);

  CommHandler* const handler_;
  std::vector<Comm> comms_;
  int started_ = 0;                     // communications of this iteration, skipped ones too
  std::atomic<int64_t> waited_ns_ = 0;  // sum over all threads
  double on_way_ = 0;                   // seconds
};

}  // namespace tandem
