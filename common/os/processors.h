// Keeps the threads of one parallel loop on different processors.
//
// Reason: Linux wakes a thread on the processor where the thread ran last, or on the processor of
// the waking thread. Linux searches for an idle processor only while the nearby processors are
// lightly used (SIS_UTIL). With few processors, two threads of a loop can therefore share one
// processor for milliseconds while another processor is idle.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace tandem {

// Tracks the processor of a parallel loop's leading thread. Not thread-safe: one thread at a time.
class LeaderCpuTracker {
 public:
  // Returns true if the calling thread changed its processor since the last call and the other
  // threads should avoid the new processor. Always returns false in two cases: the machine has many
  // processors, because Linux then finds an idle one; or the calling thread may use only one
  // processor. A call takes some nanoseconds if the thread has not moved.
  bool Moved();
  // Excludes the leader's processor for `thread`. `thread` may then use the other processors that
  // the leader was allowed to use at the last Moved(). If `thread` runs, it migrates immediately;
  // if it sleeps, it migrates when it wakes. REQUIRES: the last Moved() returned true.
  void SendAway(pthread_t thread) const;
  // Ends the effect of SendAway(): `thread` may again use all processors of the leader. The thread
  // stays on its processor until the scheduler moves it.
  void LetGo(pthread_t thread) const;

 private:
  int at_ = -1;
  cpu_set_t all_ = {}, others_ = {};
};

}  // namespace tandem
