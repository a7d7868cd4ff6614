// Shortens the scheduler's time slice of a thread.
#pragma once

#include <cstdint>

namespace tandem {

// Gives the calling thread the shortest possible time slice (0.1 ms) from construction to
// destruction. Threads that the calling thread starts during this time get the short slice too, and
// keep it after the destruction.
//
// Use this class for a thread that does little work at a time while other threads wait for the
// result. With a short slice, the thread runs as soon as it wakes. Otherwise it would wait until a
// computing thread has used its slice (3 ms). Needs Linux 6.12 (EEVDF; sched_setattr(2) with
// sched_runtime for SCHED_OTHER). On older kernels this class has no effect.
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
