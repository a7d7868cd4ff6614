#include "common/tables/bucket_map.h"

#include <algorithm>

namespace tandem {

bool BucketMap::Learn(const BucketMove& move) {
  if (move.bucket < 0 || move.bucket >= kBucketsMax || move.server < 0) return false;
  if (move.epoch <= epoch(move.bucket) || move.epoch > kEpochMax) return false;
  const auto index = static_cast<size_t>(move.bucket);
  if (index >= moves_.size()) moves_.resize(index + 1);
  auto& [epoch, server] = moves_[index];
  version_ += move.epoch - epoch;
  epoch = move.epoch;
  server = move.server;
  return true;
}

std::vector<BucketMove> BucketMap::Learn(const BucketMap& other) {
  std::vector<BucketMove> news;
  for (const BucketMove& move : other.moves()) {
    if (!Learn(move)) continue;
    news.push_back(move);
    // A process that knows of the bucket's move to a server also knows the server's newest address.
    const auto target = other.addresses_.find(move.server);
    if (target != other.addresses_.end()) SetAddress(target->first, target->second);
  }
  addresses_.insert(other.addresses_.begin(), other.addresses_.end());
  return news;
}

bool BucketMap::OwnsAny(int server) const {
  return std::any_of(moves_.begin(), moves_.end(),
                     [server](const auto& m) { return m.first != 0 && m.second == server; });
}

std::vector<BucketMove> BucketMap::moves() const {
  std::vector<BucketMove> all;
  for (size_t b = 0; b < moves_.size(); ++b) {
    const auto& [epoch, server] = moves_[b];
    if (epoch != 0) all.push_back({static_cast<int>(b), epoch, server});
  }
  return all;
}

}  // namespace tandem
