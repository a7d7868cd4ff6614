#include "common/os/core_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem {

void LimitCoreDumps(bool allowed) {
  // If the kernel pipes core dumps to a program, a core limit of 0 has no effect, but a limit of 1
  // prevents the dump. A limit of 1 also prevents core files, because a core file is larger than 1
  // byte (Linux, fs/coredump.c).
  constexpr rlim_t kNone = 1;
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = allowed ? limit.rlim_max : std::min(kNone, limit.rlim_max);
  (void)setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace tandem
