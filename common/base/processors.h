// Threads that share one piece of work, kept on different processors.
//
// Linux wakes a thread up where it ran last or where the one is that wakes it, and looks for an
// idle processor only while those around are little used (SIS_UTIL). With few processors two
// threads of a loop can so take turns on one of them for milliseconds, while the other is idle.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace tandem {

// Sees where a thread is that leads others. One thread at a time.
class LeaderCpuTracker {
 public:
  // True when the calling thread has come to another processor since the last call, and others
  // should keep off it: not on a machine with many processors, where an idle one is easily found,
  // nor where the thread may use a single one. Costs some nanoseconds while the thread stays.
  bool Moved();
  // `thread` may use what the leader might at the last Moved(), but the processor that it was on:
  // so a thread that runs goes elsewhere at once, and one that sleeps when it is woken up.
  // REQUIRES: that was true.
  void SendAway(pthread_t thread) const;
  // It may use all of them again. It stays where it is until the kernel finds a reason.
  void LetGo(pthread_t thread) const;

 private:
  int at_ = -1;
  cpu_set_t all_ = {}, others_ = {};
};

}  // namespace tandem
