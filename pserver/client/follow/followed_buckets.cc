#include "pserver/client/follow/followed_buckets.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::ps {

void FollowedBuckets::SetClaims(size_t server, std::span<const Range> ranges) {
  TD_REQUIRE(server < claims_.size());
  claims_[server] = EpochsOf(ranges);
  for (size_t b = 0; b < kRowBuckets; ++b) {
    if (held_[server][b] != claims_[server][b]) held_[server][b] = 0;
  }
}

void FollowedBuckets::SetHeld(size_t server, std::span<const Range> ranges) {
  TD_REQUIRE(server < held_.size());
  held_[server] = {};
  held_[server] = EpochsOf(NotHeld(ranges));
}

std::vector<FollowedBuckets::Range> FollowedBuckets::NotHeld(std::span<const Range> ranges) const {
  Epochs epochs = EpochsOf(ranges);
  for (size_t b = 0; b < kRowBuckets; ++b) {
    if (IsHeld(b)) epochs[b] = 0;
  }
  return RangesOf(epochs);
}

bool FollowedBuckets::IsHeld(size_t bucket) const {
  return std::ranges::any_of(held_, [bucket](const Epochs& held) { return held[bucket] != 0; });
}

bool FollowedBuckets::Hold(size_t server, int bucket) {
  TD_REQUIRE(server < held_.size() && bucket >= 0 && bucket < kRowBuckets);
  const auto b = static_cast<size_t>(bucket);
  if (OwnerOf(b) != static_cast<int>(server)) return false;
  for (Epochs& held : held_) held[b] = 0;
  held_[server][b] = claims_[server][b];
  return true;
}

bool FollowedBuckets::Holds(size_t server, int bucket) const {
  const auto b = static_cast<size_t>(bucket);
  return held_[server][b] != 0 && held_[server][b] == claims_[server][b];
}

std::vector<int> FollowedBuckets::Wanted(size_t server) const {
  std::vector<int> wanted;
  for (int b = 0; b < kRowBuckets; ++b) {
    if (OwnerOf(static_cast<size_t>(b)) == static_cast<int>(server) && !Holds(server, b)) {
      wanted.push_back(b);
    }
  }
  return wanted;
}

bool FollowedBuckets::IsNeeded(size_t server) const {
  for (size_t b = 0; b < kRowBuckets; ++b) {
    if (OwnerOf(b) == static_cast<int>(server)) return true;
  }
  return false;
}

bool FollowedBuckets::LacksOwner() const {
  for (size_t b = begin_; b < end_; ++b) {
    if (OwnerOf(b) < 0) return true;
  }
  return false;
}

bool FollowedBuckets::Complete() const {
  for (size_t b = begin_; b < end_; ++b) {
    const int owner = OwnerOf(b);
    if (owner < 0 || !Holds(static_cast<size_t>(owner), static_cast<int>(b))) return false;
  }
  return true;
}

FollowedBuckets::Epochs FollowedBuckets::EpochsOf(std::span<const Range> ranges) const {
  Epochs epochs{};
  for (const Range& range : ranges) {
    TD_REQUIRE(range.begin >= 0 && range.begin < range.end && range.end <= kRowBuckets);
    std::fill(epochs.begin() + range.begin, epochs.begin() + range.end, range.epoch + 1);
  }
  std::fill(epochs.begin(), epochs.begin() + static_cast<ptrdiff_t>(begin_), 0);
  std::fill(epochs.begin() + static_cast<ptrdiff_t>(end_), epochs.end(), 0);
  return epochs;
}

std::vector<FollowedBuckets::Range> FollowedBuckets::RangesOf(const Epochs& epochs) {
  std::vector<Range> ranges;
  for (int b = 0; b < kRowBuckets; ++b) {
    const uint64_t epoch = epochs[static_cast<size_t>(b)];
    if (epoch == 0) continue;
    if (!ranges.empty() && ranges.back().end == b && ranges.back().epoch + 1 == epoch) {
      ++ranges.back().end;
    } else {
      ranges.push_back({b, b + 1, epoch - 1});
    }
  }
  return ranges;
}

int FollowedBuckets::OwnerOf(size_t bucket) const {
  int owner = -1;
  uint64_t newest = 0;
  for (size_t s = 0; s < claims_.size(); ++s) {
    if (claims_[s][bucket] <= newest) continue;
    newest = claims_[s][bucket];
    owner = static_cast<int>(s);
  }
  return owner;
}

}  // namespace tandem::ps
