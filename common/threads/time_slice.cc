#include "common/threads/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tandem {
namespace {

// The argument of sched_setattr(2). glibc declares it only since version 2.41.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

bool Get(SchedAttr* attr) { return syscall(SYS_sched_getattr, 0, attr, sizeof(*attr), 0) == 0; }

// Sets the time slice of this thread, in nanoseconds. 0: the kernel's default.
void SetSlice(SchedAttr attr, uint64_t ns) {
  if (attr.policy != SCHED_OTHER) return;  // the user or the operator chose another policy
  attr.runtime_ns = ns;
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

ShortTimeSlice::ShortTimeSlice() {
  constexpr uint64_t kShortestNs = 100'000;
  SchedAttr attr;
  if (!Get(&attr)) return;
  before_ns_ = attr.runtime_ns;
  SetSlice(attr, kShortestNs);
}

ShortTimeSlice::~ShortTimeSlice() {
  SchedAttr attr;
  if (Get(&attr)) SetSlice(attr, before_ns_);
}

}  // namespace tandem
