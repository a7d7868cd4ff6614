// Maps the row ids of a table to row indices: one hash table (row_hash_table.h) for each row bucket
// (common/tables/row_buckets.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"
#include "pserver/tables/rows/row_hash_table.h"

namespace tandem::pserver {

// The index of one table. Not thread-safe, except that several threads may change different
// buckets.
class RowIdIndex {
 public:
  static constexpr uint32_t kNone = RowHashTable::kNone;

  RowIdIndex() : buckets_(kRowBuckets) {}

  // Returns the index of `id`; kNone: `id` is absent.
  uint32_t Find(uint64_t id) const { return Bucket(id).Find(id); }
  // Prefetches the cache line that Find and FindOrAdd read.
  void Prefetch(uint64_t id) const { Bucket(id).Prefetch(id); }
  // Returns the index of `id`. If `id` is absent, adds it with index `at`. REQUIRES: `at` is not
  // kNone.
  uint32_t FindOrAdd(uint64_t id, uint32_t at) {
    TD_REQUIRE(at != kNone);
    return Bucket(id).FindOrAdd(id, at);
  }
  // Changes the index of `id`. REQUIRES: `id` is present.
  void Set(uint64_t id, uint32_t at) { Bucket(id).Set(id, at); }
  void Erase(uint64_t id) { Bucket(id).Erase(id); }
  // Reserves room for `ids` in addition to the present rows. This optional call avoids repeated
  // growth while many ids are added.
  void Expect(std::span<const uint64_t> ids);
  // Returns the ids of the rows in a row bucket, ascending.
  std::vector<uint64_t> IdsOf(int bucket) const;

 private:
  RowHashTable& Bucket(uint64_t id) { return buckets_[RowBucket(id)]; }
  const RowHashTable& Bucket(uint64_t id) const { return buckets_[RowBucket(id)]; }

  std::vector<RowHashTable> buckets_;  // by row bucket: its hash table
};

}  // namespace tandem::pserver
