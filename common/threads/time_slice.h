// Shortens the scheduler's time slice of a thread.
#pragma once

#include <cstdint>

namespace tandem {

// Gives this thread, and threads that it starts, the shortest possible time slice (0.1 ms) until
// destruction. For a thread that does little work at a time while other threads wait for the
// result. Such a thread runs as soon as it wakes, and does not wait until a computing thread has
// used its slice (3 ms). Threads that were started before destruction keep the short slice. Needs
// Linux 6.12 (EEVDF, sched_setattr(2): sched_runtime of SCHED_OTHER); no effect on older kernels.
class ShortTimeSlice {
 public:
  ShortTimeSlice();
  ~ShortTimeSlice();
  ShortTimeSlice(const ShortTimeSlice&) = delete;
  ShortTimeSlice& operator=(const ShortTimeSlice&) = delete;

 private:
  uint64_t before_ns_ = 0;
};

}  // namespace tandem
