// The owners of rows and slices that one client knows at one moment.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "common/tables/bucket_map.h"

namespace tandem::ps {

// The owners as one consistent state: Placement replaces the object at each change.
struct OwnerMap {
  BucketMap map;               // moves of buckets since Configure
  std::vector<size_t> rows;    // by row bucket: index of the owner; empty: there are no tables
  std::vector<size_t> slices;  // by slice: index of the owner
  std::vector<uint64_t> generations;  // by server: its generation (ExchangeMapReply)

  // Returns the owner of row `id`, the same in every table. REQUIRES: there are tables.
  size_t OwnerOf(uint64_t id) const;
  bool Owns(size_t server) const;  // true: the server owns a row bucket or a slice
  std::set<size_t> RowOwners() const { return {rows.begin(), rows.end()}; }
  // Returns the entry of `bucket` in `rows` or `slices`; null: the job has neither rows nor a slice
  // in the bucket.
  size_t* Owner(int bucket);
};

}  // namespace tandem::ps
