#include "pserver/tables/rows/row_id_index.h"

#include <algorithm>

namespace tandem::pserver {

void RowIdIndex::Expect(std::span<const uint64_t> ids) {
  std::vector<size_t> more(kRowBuckets, 0);
  for (const uint64_t id : ids) ++more[RowBucket(id)];
  for (int b = 0; b < kRowBuckets; ++b) {
    if (more[b] != 0) buckets_[b].Reserve(buckets_[b].size() + more[b]);
  }
}

std::vector<uint64_t> RowIdIndex::IdsOf(int bucket) const {
  TD_REQUIRE(bucket >= 0 && bucket < kRowBuckets);
  std::vector<uint64_t> ids;
  ids.reserve(buckets_[bucket].size());
  buckets_[bucket].ForEach([&](uint64_t id, uint32_t) { ids.push_back(id); });
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace tandem::pserver
