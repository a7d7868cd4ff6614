// The row buckets of a table. A row bucket is the unit in which rows are assigned to servers,
// stored and moved. The number of buckets does not depend on the number of servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tandem {

inline constexpr int kRowBuckets = 1024;
inline constexpr int kSlicesMax = 1 << 20;
// Number of buckets. The buckets from kRowBuckets on are slices of dense variables, one slice each.
inline constexpr int kBucketsMax = kRowBuckets + kSlicesMax;
// Maximum number of rows of one table in a message.
inline constexpr size_t kRowsOfMessageMax = 1 << 22;
// Maximum bytes per row of the index in a client's row cache (absl::flat_hash_map<uint64_t,
// uint32_t>). An entry has a pair and one control byte. The lowest load of the map is 7/16.
inline constexpr size_t kRowIndexBytes = (sizeof(std::pair<uint64_t, uint32_t>) + 1) * 16 / 7 + 1;

// Returns the row bucket of a row id by multiplicative hashing. The factor is 2^64 divided by the
// golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
constexpr int RowBucket(uint64_t id) { return static_cast<int>((id * 0x9e3779b97f4a7c15) >> 54); }

static_assert(kRowBuckets == 1 << (64 - 54), "the upper bits of the product are a bucket");

// Returns the first row bucket of server number `server`, from 0 to `servers` - 1. For `server` ==
// `servers` it returns kRowBuckets.
constexpr int FirstBucket(int server, int servers) {
  return static_cast<int>(int64_t{kRowBuckets} * server / servers);
}

}  // namespace tandem
