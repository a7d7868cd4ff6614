// The owners of rows and slices, as one client knows them at one moment.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "common/tables/bucket_map.h"

namespace tandem::ps {

// The owners as one consistent state. Placement makes a new object for each change.
struct OwnerMap {
  BucketMap map;               // moves of buckets since Configure
  std::vector<size_t> rows;    // by row bucket: index of the owner; empty: there are no tables
  std::vector<size_t> slices;  // by slice: index of the owner
  std::vector<uint64_t> generations;  // by server: generation (ExchangeMapReply)

  // Returns the owner of row `id`. All tables have the same owners. REQUIRES: there are tables.
  size_t OwnerOf(uint64_t id) const;
  bool Owns(size_t server) const;  // true: the server owns a row bucket or a slice
  std::set<size_t> RowOwners() const { return {rows.begin(), rows.end()}; }
  // Returns the entry of `bucket` in `rows` or `slices`; null: the job has no rows and no slice
  // with this bucket.
  size_t* Owner(int bucket);
};

}  // namespace tandem::ps
