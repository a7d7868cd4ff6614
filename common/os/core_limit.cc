#include "common/os/core_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace tandem {

void LimitCoreDumps(bool allowed) {
  // A pipe still gets the memory if the limit is 0. A limit of 1 prevents this, and also core
  // files, which are larger (Linux, fs/coredump.c).
  constexpr rlim_t kNone = 1;
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = allowed ? limit.rlim_max : std::min(kNone, limit.rlim_max);
  (void)setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace tandem
