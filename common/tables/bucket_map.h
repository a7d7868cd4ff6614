// The owners of row buckets and dense slices, as one process knows them. A dense slice has a bucket
// number too (row_buckets.h). The first owner of a bucket is the server on which Configure places
// the bucket. Each move of a bucket has an ownership epoch. Only the current owner of the bucket
// assigns this epoch. If two moves of a bucket differ, the move with the higher ownership epoch is
// valid. So the maps of several servers can be merged in any order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/tables/row_buckets.h"

namespace tandem {

// Maximum ownership epoch. A job that moves each bucket a thousand times per second reaches the
// maximum after thirty years. With larger values, sums of ownership epochs could overflow.
inline constexpr uint64_t kEpochMax = uint64_t{1} << 40;
static_assert(UINT64_MAX / kEpochMax > kBucketsMax, "a sum over all buckets fits");

struct BucketMove {
  int bucket = 0;
  uint64_t epoch = 0;
  int server = 0;  // server that owns the bucket from this ownership epoch on
  friend bool operator==(const BucketMove&, const BucketMove&) = default;
};

// The latest known move of each bucket. Not thread-safe.
class BucketMap {
 public:
  // Stores a move. Returns true if `move` is newer than the known move of its bucket. Ignores a
  // move with an impossible bucket or server, or with an ownership epoch above kEpochMax.
  bool Learn(const BucketMove& move);
  // Adds the newer moves of `other`, and returns these moves.
  std::vector<BucketMove> Learn(const BucketMap& other);
  // The network addresses of servers that joined the running job.
  void SetAddress(int server, const std::string& address) { addresses_[server] = address; }
  const std::map<int, std::string>& addresses() const { return addresses_; }

  uint64_t epoch(int bucket) const {
    const auto i = static_cast<size_t>(bucket);
    return i < moves_.size() ? moves_[i].first : 0;
  }
  // Returns the owner of `bucket`. `first` is the server on which Configure placed the bucket.
  int owner(int bucket, int first) const {
    return epoch(bucket) == 0 ? first : moves_[bucket].second;
  }
  // The latest move of each bucket that has moved, ordered by bucket.
  std::vector<BucketMove> moves() const;
  bool OwnsAny(int server) const;  // true if a bucket that has moved now belongs to `server`
  bool MovesSlices() const { return moves_.size() > kRowBuckets; }
  // Returns the sum of all ownership epochs. Two maps with the same moves have the same sum.
  uint64_t version() const { return version_; }

 private:
  // Ownership epoch and owner; the index is the bucket.
  std::vector<std::pair<uint64_t, int>> moves_;
  std::map<int, std::string> addresses_;
  uint64_t version_ = 0;
};

}  // namespace tandem
