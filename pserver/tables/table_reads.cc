#include "pserver/tables/table_reads.h"

#include <algorithm>
#include <array>

namespace tandem::pserver {

StatusOr<TablePage> TableReads::Page(int bucket, bool with_slots, uint64_t bytes_max,
                                     uint64_t version, int end) const {
  TablePage page;
  page.rows.variable = table_.spec_.variable;
  if (with_slots) {
    page.slots = table_.updater_.slots();
    page.slot_start = table_.updater_.slot_start();
  }
  const auto bytes = [&page] {
    return page.rows.content.size() * sizeof(float) + page.rows.waiting.size() * sizeof(WaitingRow);
  };
  const TableRowSet::ReadOptions read{.version = static_cast<uint32_t>(version),
                                      .with_slots = with_slots};
  for (; bucket < end && bytes() < bytes_max; ++bucket) {
    if (!table_.buckets_.serves(bucket)) continue;
    TD_RETURN_IF_ERROR(table_.rows_.AppendBucket(bucket, read, page.rows));
  }
  page.next_bucket = bucket;
  return page;
}

Status TableReads::ReadExisting(std::span<const uint64_t> ids, TableChanges& changes) {
  const auto dim = static_cast<size_t>(table_.dim_);
  const size_t group = table_.RowsOfRead(ids.size());
  changes.ids.reserve(changes.ids.size() + ids.size());
  changes.values.reserve(changes.values.size() + ids.size() * dim);
  std::vector<uint32_t> at;
  for (size_t begin = 0; begin < ids.size(); begin += group) {
    const std::span some = ids.subspan(begin, std::min(group, ids.size() - begin));
    if (table_.rows_.tiers() != nullptr) TD_RETURN_IF_ERROR(table_.Prepare(some));
    at.resize(some.size());
    table_.rows_.store().Find(some, at.data());
    for (size_t i = 0; i < some.size(); ++i) {
      if (at[i] == RowStore::kNone) {
        changes.removed.push_back(some[i]);
        continue;
      }
      changes.ids.push_back(some[i]);
      changes.values.resize(changes.values.size() + dim);
      table_.reader_.CopyWeights(at[i], changes.values.data() + changes.values.size() - dim);
    }
  }
  return OkStatus();
}

StatusOr<size_t> TableReads::CountRows(std::span<const uint64_t> ids) {
  constexpr size_t kGroup = 64;
  size_t count = 0;
  for (size_t begin = 0; begin < ids.size(); begin += kGroup) {
    const std::span some = ids.subspan(begin, std::min(kGroup, ids.size() - begin));
    if (table_.rows_.tiers() != nullptr) TD_RETURN_IF_ERROR(table_.Prepare(some));
    std::array<uint32_t, kGroup> at;
    table_.rows_.store().Find(some, at.data());
    count += some.size();
    count -= static_cast<size_t>(std::count(at.begin(), at.begin() + some.size(), RowStore::kNone));
  }
  return count;
}

}  // namespace tandem::pserver
