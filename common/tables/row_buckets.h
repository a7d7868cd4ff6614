// The row buckets of a table: the unit in which its rows are placed on servers, stored and moved.
// Their number does not depend on the number of servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tandem {

inline constexpr int kRowBuckets = 1024;
inline constexpr int kSlicesMax = 1 << 20;
// Buckets from kRowBuckets on are slices of dense variables, one slice each.
inline constexpr int kBucketsMax = kRowBuckets + kSlicesMax;
inline constexpr size_t kRowsOfMessageMax = 1 << 22;  // rows of one table
// Bytes per row in an index of rows, absl::flat_hash_map<uint64_t, uint32_t>: a pair and its
// control byte, at the lowest load between two growths (7/16).
inline constexpr size_t kRowIndexBytes = (sizeof(std::pair<uint64_t, uint32_t>) + 1) * 16 / 7 + 1;

// Multiplicative hashing with 2^64 divided by the golden ratio (Knuth, The Art of Computer
// Programming 3, 6.4).
constexpr int RowBucket(uint64_t id) { return static_cast<int>((id * 0x9e3779b97f4a7c15) >> 54); }

static_assert(kRowBuckets == 1 << (64 - 54), "the upper bits of the product are a bucket");

// The first row bucket of server `server` of `servers`. For server `servers` it is kRowBuckets.
constexpr int FirstBucket(int server, int servers) {
  return static_cast<int>(int64_t{kRowBuckets} * server / servers);
}

}  // namespace tandem
