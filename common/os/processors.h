// Keeps the threads of one parallel loop on different processors.
//
// Linux wakes a thread on the processor where it ran last or on that of the waking thread. It
// searches an idle processor only while the nearby ones are lightly used (SIS_UTIL). With few
// processors, two threads of a loop can therefore share one of them for milliseconds while another
// is idle.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace tandem {

// Tracks the processor of the thread that leads a parallel loop. One thread at a time.
class LeaderCpuTracker {
 public:
  // Returns true if the calling thread runs on another processor than at the last call, and other
  // threads should avoid it. Always false on a machine with many processors, where an idle one is
  // easily found, and if the thread may use only one. Costs some nanoseconds if the thread has not
  // moved.
  bool Moved();
  // Restricts `thread` to the processors that the leader was allowed at the last Moved(), except
  // the one that the leader was on. A running thread migrates immediately, a sleeping one when it
  // wakes. REQUIRES that the last Moved() returned true.
  void SendAway(pthread_t thread) const;
  // Allows `thread` all those processors again. The thread stays where it is until the scheduler
  // moves it.
  void LetGo(pthread_t thread) const;

 private:
  int at_ = -1;
  cpu_set_t all_ = {}, others_ = {};
};

}  // namespace tandem
