#include "pserver/replication/state_history.h"

#include <algorithm>

namespace tandem::pserver {

StatusOr<LogTerm> ReplicaHistory::CurrentTerm() const {
  MutexLock lock(mu_);
  if (!now_) return Unavailable("this replica has no state yet");
  return now_->term;
}

bool ReplicaHistory::Contains(const LogTerm& term, uint64_t number) const {
  MutexLock lock(mu_);
  if (now_ && now_->term == term) return true;
  return std::ranges::any_of(
      before_, [&](const Part& part) { return part.term == term && number <= part.last; });
}

void ReplicaHistory::OnStep(const LogTerm& term, uint64_t last) {
  MutexLock lock(mu_);
  if (now_ && now_->term != term) before_.push_back(*now_);
  if (before_.size() > kTermsMax) before_.pop_front();
  now_ = {term, last};
}

void ReplicaHistory::Forget() {
  MutexLock lock(mu_);
  now_.reset();
  before_.clear();
}

}  // namespace tandem::pserver
