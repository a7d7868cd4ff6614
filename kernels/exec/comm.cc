#include "kernels/exec/comm.h"

namespace tandem::exec {

Status CommDone::Wait(Time deadline) {
  MutexLock lock(mu_);
  while (!done_) {
    if (!cv_.WaitUntil(mu_, deadline) && !done_) {
      return DeadlineExceeded(
          "the communication with other ranks timed out [TD3006]; hint: find the slowest rank with "
          "tandem status LOG_DIR");
    }
  }
  return status_;
}

void CommDone::Reset() {
  MutexLock lock(mu_);
  done_ = false;
  status_ = OkStatus();
}

}  // namespace tandem::exec
