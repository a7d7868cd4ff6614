// How long a thread may run before the kernel looks whether another one should.
#pragma once

#include <cstdint>

namespace tandem {

// While it lives, this thread and the threads it starts have the shortest time slice there is (0.1
// ms). For threads that others wait for and that have little to do each time: when one of them
// wakes up it runs at once instead of waiting for the end of the slice of a thread that computes (3
// ms). What such a thread started keeps the short slice. Since Linux 6.12 (EEVDF, sched_setattr(2):
// sched_runtime of SCHED_OTHER); without effect on older kernels.
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
