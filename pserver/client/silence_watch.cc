#include "pserver/client/silence_watch.h"

#include <utility>

namespace tandem::ps {

SilenceWatch::SilenceWatch(Duration limit, OnSilent on_silent)
    : limit_(limit), on_silent_(std::move(on_silent)) {}

void SilenceWatch::Start(size_t server, Time now) {
  MutexLock lock(mu_);
  since_.try_emplace(server, now);
}

void SilenceWatch::EndAll() {
  MutexLock lock(mu_);
  since_.clear();
}

void SilenceWatch::OnEnd(size_t server, const Status& status, Time now) {
  Duration silent = Duration::zero();
  {
    MutexLock lock(mu_);
    const auto it = since_.find(server);
    if (it == since_.end()) return;
    if (status.code() != StatusCode::kDeadlineExceeded) {
      since_.erase(it);
      return;
    }
    silent = now - it->second;
  }
  if (on_silent_ && silent >= limit_) on_silent_(static_cast<int>(server), silent);
}

}  // namespace tandem::ps
