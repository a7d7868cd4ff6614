// The processor time of this process, for benchmarks.
#pragma once

#include <sys/resource.h>

namespace tandem::bench {

// Returns the seconds of processor time that all threads of this process have used.
inline double CpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace tandem::bench
