#include "common/os/core_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem {

void LimitCoreDumps(bool allowed) {
  // If the kernel pipes core dumps to a program, a core limit of 0 does not stop it, but a limit of
  // 1 does. A limit of 1 also prevents core files, which are larger (Linux, fs/coredump.c).
  constexpr rlim_t kNone = 1;
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = allowed ? limit.rlim_max : std::min(kNone, limit.rlim_max);
  (void)setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace tandem
