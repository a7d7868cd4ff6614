// The owners of row buckets and dense slices, as far as one process knows them; a dense slice is a
// bucket too (row_buckets.h). A bucket starts on the server where Configure places it. Each move of
// a bucket has an ownership epoch, which only the bucket's current owner assigns. Of two reports
// about a bucket, the one with the higher ownership epoch is right. So maps of several servers can
// be merged in any order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/tables/row_buckets.h"

namespace tandem {

// A job that moves each bucket a thousand times per second reaches it in thirty years. Larger
// values could overflow sums of ownership epochs.
inline constexpr uint64_t kEpochMax = uint64_t{1} << 40;
static_assert(UINT64_MAX / kEpochMax > kBucketsMax, "a sum over all buckets fits");

struct BucketMove {
  int bucket = 0;
  uint64_t epoch = 0;
  int server = 0;  // the owner from this epoch on
  friend bool operator==(const BucketMove&, const BucketMove&) = default;
};

// The latest known move of each bucket. Not thread-safe.
class BucketMap {
 public:
  // Returns true if `move` is newer than the known one. Ignores impossible buckets or servers, and
  // ownership epochs above kEpochMax.
  bool Learn(const BucketMove& move);
  // Returns the moves of `other` that were not known.
  std::vector<BucketMove> Learn(const BucketMap& other);
  // Addresses of servers that joined a running job.
  void SetAddress(int server, const std::string& address) { addresses_[server] = address; }
  const std::map<int, std::string>& addresses() const { return addresses_; }

  uint64_t epoch(int bucket) const {
    const auto i = static_cast<size_t>(bucket);
    return i < moves_.size() ? moves_[i].first : 0;
  }
  // `first`: the server on which the bucket was first placed.
  int owner(int bucket, int first) const {
    return epoch(bucket) == 0 ? first : moves_[bucket].second;
  }
  std::vector<BucketMove> moves() const;  // by bucket
  bool OwnsAny(int server) const;         // true if it owns a bucket that has moved
  bool MovesSlices() const { return moves_.size() > kRowBuckets; }
  // The sum of the ownership epochs. Maps with the same knowledge have the same sum.
  uint64_t version() const { return version_; }

 private:
  std::vector<std::pair<uint64_t, int>> moves_;  // (epoch, owner) by bucket, to the last that moved
  std::map<int, std::string> addresses_;
  uint64_t version_ = 0;
};

}  // namespace tandem
