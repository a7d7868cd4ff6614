#include "pserver/shard/logged_snapshots.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::pserver {

void LoggedSnapshots::Add(const SnapshotRecord& record, SnapshotFn copy) {
  TD_REQUIRE(record.number != 0 && copy != nullptr);
  MutexLock lock(mu_);
  if (!ignore_) waiting_.push_back({record, std::move(copy)});
}

void LoggedSnapshots::WriteAll() {
  MutexLock writing(writing_mu_);
  while (true) {
    Waiting next;
    {
      MutexLock lock(mu_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const Status written = write_(next.record, next.copy);
    LOG_IF(ERROR, !written.ok()) << "snapshot " << next.record.number
                                 << " is not on the disk of this member of the server: "
                                 << ToString(written);
  }
}

void LoggedSnapshots::Clear() {
  std::deque<Waiting> abandoned;  // destroyed without the lock
  MutexLock lock(mu_);
  abandoned.swap(waiting_);
}

void LoggedSnapshots::Ignore(bool ignore) {
  MutexLock lock(mu_);
  ignore_ = ignore;
}

}  // namespace tandem::pserver
