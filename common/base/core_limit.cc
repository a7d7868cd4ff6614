#include "common/base/core_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem {

void LimitCoreDumps(bool allowed) {
  // A limit of 0 keeps no pipe from getting the memory; 1 does, and no core file is so small
  // (Linux, fs/coredump.c).
  constexpr rlim_t kNone = 1;
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = allowed ? limit.rlim_max : std::min(kNone, limit.rlim_max);
  (void)setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace tandem
