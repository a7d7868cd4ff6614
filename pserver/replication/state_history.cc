#include "pserver/replication/state_history.h"

namespace tandem::pserver {

StatusOr<LogTerm> ReplicaHistory::CurrentTerm() const {
  MutexLock lock(mu_);
  if (!now_) return Unavailable("this replica has no state yet");
  return now_->term;
}

bool ReplicaHistory::Contains(const LogTerm& term, uint64_t number) const {
  MutexLock lock(mu_);
  if (now_ && now_->term == term) return true;
  return before_ && before_->term == term && number <= before_->last;
}

void ReplicaHistory::OnStep(const LogTerm& term, uint64_t last) {
  MutexLock lock(mu_);
  if (now_ && now_->term != term) before_ = now_;
  now_ = {term, last};
}

void ReplicaHistory::Forget() {
  MutexLock lock(mu_);
  now_.reset();
  before_.reset();
}

}  // namespace tandem::pserver
