#include "kernels/exec/comm.h"

namespace tandem {

Status CommDone::Wait(Time deadline) {
  MutexLock lock(mu_);
  while (!done_) {
    if (!cv_.WaitUntil(mu_, deadline) && !done_) {
      return DeadlineExceeded(
          "a wait for communication timed out [TD3006]; hint: tandem status LOG_DIR names the "
          "slowest rank");
    }
  }
  return status_;
}

void CommDone::Reset() {
  MutexLock lock(mu_);
  done_ = false;
  status_ = OkStatus();
}

}  // namespace tandem
