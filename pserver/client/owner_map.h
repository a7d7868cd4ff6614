// The owners of rows and slices, as one client knows them at one moment.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "common/tables/bucket_map.h"

namespace tandem::ps {

// Placement replaces the map as a whole, so a reader sees one consistent state.
struct OwnerMap {
  BucketMap map;                      // moves since Configure
  std::vector<size_t> rows;           // owner by row bucket; empty: there are no tables
  std::vector<size_t> slices;         // owner by slice
  std::vector<uint64_t> generations;  // by server: generation of ExchangeMapReply

  // The owner of row `id` of every table. REQUIRES: there are tables.
  size_t OwnerOf(uint64_t id) const;
  bool Owns(size_t server) const;  // a row bucket or a slice
  std::set<size_t> RowOwners() const { return {rows.begin(), rows.end()}; }
  // The entry of `bucket`; null: this client has nothing in the bucket.
  size_t* Owner(int bucket);
};

}  // namespace tandem::ps
