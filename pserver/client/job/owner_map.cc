#include "pserver/client/job/owner_map.h"

#include <algorithm>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::ps {

size_t OwnerMap::OwnerOf(uint64_t id) const {
  const auto bucket = static_cast<size_t>(RowBucket(id));
  TD_REQUIRE(bucket < rows.size());
  return rows[bucket];
}

bool OwnerMap::Owns(size_t server) const {
  return std::find(rows.begin(), rows.end(), server) != rows.end() ||
         std::find(slices.begin(), slices.end(), server) != slices.end();
}

size_t* OwnerMap::Owner(int bucket) {
  TD_REQUIRE(bucket >= 0);
  const auto i = static_cast<size_t>(bucket);
  if (bucket < kRowBuckets) return i < rows.size() ? &rows[i] : nullptr;
  return i - kRowBuckets < slices.size() ? &slices[i - kRowBuckets] : nullptr;
}

}  // namespace tandem::ps
