// Which server has which bucket of rows and which dense slice (a bucket too, row_buckets.h), as far
// as somebody knows. Buckets begin where Configure places them; each move has a number, its epoch,
// which only the bucket's owner of the moment gives away. So of two that tell of one bucket the
// higher epoch is right, and maps of several servers go together in any order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/tensor/row_buckets.h"

namespace tandem {

// A job that makes a thousand moves of a bucket each second gets there in thirty years. Beyond it
// sums of epochs would overflow.
inline constexpr uint64_t kEpochMax = uint64_t{1} << 40;

struct BucketMove {
  int bucket = 0;
  uint64_t epoch = 0;
  int server = 0;  // its owner since then
  friend bool operator==(const BucketMove&, const BucketMove&) = default;
};

// Not thread-safe.
class BucketMap {
 public:
  // True when that is newer than what was known. Moves of buckets or servers that cannot be, and
  // epochs above kEpochMax, count for nothing.
  bool Learn(const BucketMove& move);
  // The moves of `other` that were not known.
  std::vector<BucketMove> Learn(const BucketMap& other);
  // Of servers that came to a running job.
  void SetAddress(int server, const std::string& address) { addresses_[server] = address; }
  const std::map<int, std::string>& addresses() const { return addresses_; }

  uint64_t epoch(int bucket) const {
    const auto i = static_cast<size_t>(bucket);
    return i < moves_.size() ? moves_[i].first : 0;
  }
  // `first`: where it was placed first.
  int owner(int bucket, int first) const {
    return epoch(bucket) == 0 ? first : moves_[bucket].second;
  }
  std::vector<BucketMove> moves() const;  // by bucket
  bool OwnsAny(int server) const;         // of the buckets that moved
  bool MovesSlices() const { return moves_.size() > kRowBuckets; }
  // Sum of the epochs: two maps that know the same have the same.
  uint64_t version() const { return version_; }

 private:
  std::vector<std::pair<uint64_t, int>> moves_;  // epoch, owner; up to the last that moved
  std::map<int, std::string> addresses_;
  uint64_t version_ = 0;
};

}  // namespace tandem
