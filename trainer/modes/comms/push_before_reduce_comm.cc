#include "trainer/modes/comms/push_before_reduce_comm.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::trainer {

StatusOr<int> PushBeforeReduceComm::Register(const exec::CommNode& node) {
  TD_ASSIGN_OR_RETURN(const int index, next_.Register(node));
  CHECK_EQ(index, static_cast<int>(watched_.size()));
  watched_.push_back(std::make_unique<Watched>(this, index));
  if (node.op->type.starts_with("c_")) last_reduction_ = index;
  if (node.op->type == "push_rows") last_push_ = index;
  return index;
}

void PushBeforeReduceComm::Start(int index, int64_t step, exec::CommDone* done) {
  exec::CommDone* const watched = watched_[static_cast<size_t>(index)]->For(done);
  Status broken;
  if (index == last_reduction_) {
    MutexLock lock(mu_);
    broken = broken_;
    if (broken.ok() && !std::exchange(pushed_, false)) {
      held_ = {step, watched};
      return;
    }
  }
  if (!broken.ok()) return watched->Complete(broken);
  next_.Start(index, step, watched);
}

void PushBeforeReduceComm::Ended(int index, const Status& status) {
  std::optional<Held> waits;
  {
    MutexLock lock(mu_);
    if (status.ok() && index != last_push_) return;
    if (!status.ok() && broken_.ok()) broken_ = status;
    waits = std::exchange(held_, std::nullopt);
    pushed_ = status.ok() && !waits;
  }
  if (!waits) return;
  if (!status.ok()) return waits->done->Complete(status);
  next_.Start(last_reduction_, waits->step, waits->done);
}

void PushBeforeReduceComm::Reset() {
  MutexLock lock(mu_);
  held_.reset();
  pushed_ = false;
  broken_ = OkStatus();
}

}  // namespace tandem::trainer
