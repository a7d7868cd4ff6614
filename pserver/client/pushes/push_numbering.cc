#include "pserver/client/pushes/push_numbering.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::ps {

void PushNumbering::Grow(size_t servers) { sent_.resize(std::max(sent_.size(), servers)); }

PushNumbering::Push PushNumbering::Begin(size_t servers) {
  MutexLock lock(mu_);
  Grow(servers);
  return outstanding_.insert(outstanding_.end(), sent_);
}

void PushNumbering::End(Push push) {
  MutexLock lock(mu_);
  TD_REQUIRE(!outstanding_.empty());
  outstanding_.erase(push);
}

void PushNumbering::Number(std::span<PushPart> parts, size_t servers) {
  MutexLock lock(mu_);
  TD_REQUIRE(!outstanding_.empty());
  Grow(servers);
  for (PushPart& part : parts) {
    TD_REQUIRE(part.server < sent_.size());
    part.header.sequence = ++sent_[part.server];
  }
  if (sync_) return;
  for (PushPart& part : parts) {
    part.header.numbers = {sent_, outstanding_.front()};
  }
}

std::vector<uint64_t> PushNumbering::Ended() {
  MutexLock lock(mu_);
  if (sync_) return {};
  return outstanding_.empty() ? sent_ : outstanding_.front();
}

}  // namespace tandem::ps
