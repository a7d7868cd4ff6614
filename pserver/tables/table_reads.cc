#include "pserver/tables/table_reads.h"

#include <algorithm>
#include <cstring>

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

StatusOr<size_t> TableReads::AppendBucket(int bucket, std::optional<float> score_min,
                                          RowValues& out) const {
  size_t examined = 0;
  const TableRowSet::ReadOptions read{
      .with_slots = false, .score_min = score_min, .examined = &examined};
  TD_RETURN_IF_ERROR(table_.rows_.AppendBucket(bucket, read, out));
  return examined;
}

Status TableReads::Find(std::span<const uint64_t> ids, Group& group) const {
  group.at.resize(ids.size());
  group.cold.clear();
  group.values.clear();
  const RowStore& store = table_.rows_.store();
  store.Find(ids, group.at.data());
  const RowTiers* const tiers = table_.rows_.tiers();
  if (tiers == nullptr) return OkStatus();
  std::vector<uint64_t> missing;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (group.at[i] == RowStore::kNone) missing.push_back(ids[i]);
  }
  const RowAccessor& accessor = table_.rows_.accessor();
  return tiers->Read(missing, [&](const ColdRow& row) {
    const size_t begin = group.values.size();
    group.cold[row.id] = {accessor.Score(row.use), begin};
    // The missing weights of a brief row are 0.
    group.values.resize(begin + static_cast<size_t>(table_.dim_), 0.0f);
    std::memcpy(group.values.data() + begin, row.values,
                accessor.columns(row.brief) * sizeof(float));
    return OkStatus();
  });
}

Status TableReads::ReadExisting(std::span<const uint64_t> ids, std::optional<float> score_min,
                                TableChanges& changes) {
  const auto dim = static_cast<size_t>(table_.dim_);
  changes.ids.reserve(changes.ids.size() + ids.size());
  changes.values.reserve(changes.values.size() + ids.size() * dim);
  const RowAccessor& accessor = table_.rows_.accessor();
  Group group;
  for (size_t begin = 0; begin < ids.size(); begin += RowTiers::kGroup) {
    const std::span some = ids.subspan(begin, std::min(RowTiers::kGroup, ids.size() - begin));
    TD_RETURN_IF_ERROR(Find(some, group));
    for (size_t i = 0; i < some.size(); ++i) {
      const bool hot = group.at[i] != RowStore::kNone;
      const auto cold = hot ? group.cold.end() : group.cold.find(some[i]);
      const bool exists = hot || cold != group.cold.end();
      const bool counts =
          exists && (!score_min || (hot ? accessor.Score(table_.rows_.store().Use(group.at[i]))
                                        : cold->second.first) >= *score_min);
      if (!counts) {
        changes.removed.push_back(some[i]);
        continue;
      }
      changes.ids.push_back(some[i]);
      changes.values.resize(changes.values.size() + dim);
      float* const out = changes.values.data() + changes.values.size() - dim;
      if (hot) {
        table_.reader_.CopyWeights(group.at[i], out);
      } else {
        std::copy_n(group.values.data() + cold->second.second, dim, out);
      }
    }
  }
  return OkStatus();
}

StatusOr<TablePage> TableReads::ReadRows(std::span<const uint64_t> ids, uint64_t version) const {
  TablePage page{.version = version,
                 .slots = table_.updater_.slots(),
                 .slot_start = table_.updater_.slot_start()};
  page.rows.variable = table_.spec_.variable;
  const auto append = [&](uint64_t id, const RowUse& use, const void* row, bool brief) {
    const auto floats = static_cast<size_t>(table_.rows_.width(brief));
    const size_t begin = page.rows.content.size();
    page.rows.content.resize(begin + floats);
    std::memcpy(page.rows.content.data() + begin, row, floats * sizeof(float));
    page.rows.ids.push_back(id);
    page.rows.use.push_back(
        {use.show, static_cast<uint32_t>(version) - use.last, use.click, brief});
  };
  const RowStore& store = table_.rows_.store();
  const RowTiers* const tiers = table_.rows_.tiers();
  std::vector<uint32_t> at(ids.size());
  store.Find(ids, at.data());
  std::vector<uint64_t> missing;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (at[i] == RowStore::kNone) {
      missing.push_back(ids[i]);
    } else {
      append(ids[i], store.Use(at[i]), store.Row(at[i]), store.brief(at[i]));
    }
  }
  if (tiers == nullptr) return page;
  for (size_t begin = 0; begin < missing.size(); begin += RowTiers::kGroup) {
    const size_t n = std::min(RowTiers::kGroup, missing.size() - begin);
    std::vector<uint64_t> some(missing.begin() + static_cast<ptrdiff_t>(begin),
                               missing.begin() + static_cast<ptrdiff_t>(begin + n));
    TD_RETURN_IF_ERROR(tiers->Read(some, [&](const ColdRow& row) {
      append(row.id, row.use, row.values, row.brief);
      return OkStatus();
    }));
  }
  return page;
}

StatusOr<size_t> TableReads::CountRows(std::span<const uint64_t> ids) {
  size_t count = 0;
  Group group;
  for (size_t begin = 0; begin < ids.size(); begin += RowTiers::kGroup) {
    const std::span some = ids.subspan(begin, std::min(RowTiers::kGroup, ids.size() - begin));
    TD_RETURN_IF_ERROR(Find(some, group));
    for (size_t i = 0; i < some.size(); ++i) {
      count += group.at[i] != RowStore::kNone || group.cold.contains(some[i]);
    }
  }
  return count;
}

}  // namespace tandem::pserver
