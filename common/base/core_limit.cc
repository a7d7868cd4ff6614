#include "common/base/core_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem {

void LimitCoreDumps(bool allowed) {
  // With a limit of 0 a pipe still gets the memory. With 1 it does not, and every core file is
  // larger (Linux, fs/coredump.c).
  constexpr rlim_t kNone = 1;
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = allowed ? limit.rlim_max : std::min(kNone, limit.rlim_max);
  (void)setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace tandem
