// The part of SparseTable that handles buckets: which are here, their contents, adding and removing
// them.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/tensor/row_buckets.h"
#include "pserver/tables/sparse_table.h"

namespace tandem::pserver {

Status SparseTable::CheckIds(std::span<const uint64_t> ids, bool ascending) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= static_cast<uint64_t>(spec_.height())) {
      return InvalidArgument("row %d of table %s is out of range, expected 0 to %d",
                             static_cast<int64_t>(ids[i]), spec_.variable, spec_.height() - 1);
    }
    if (ascending && i > 0 && ids[i] <= ids[i - 1]) {
      return InvalidArgument("rows of table %s must ascend, but row %d follows row %d",
                             spec_.variable, ids[i], ids[i - 1]);
    }
    const int bucket = RowBucket(ids[i]);
    if (served_[static_cast<size_t>(bucket)]) continue;
    if (moved_) {
      return OutOfRange(
          "row %d of table %s is in row bucket %d, which is %s", ids[i], spec_.variable, bucket,
          kept_[static_cast<size_t>(bucket)] ? "being transferred to or from this server"
                                             : "not on this server");
    }
    return InvalidArgument(
        "row %d of table %s is in row bucket %d, but this server owns buckets %d to %d", ids[i],
        spec_.variable, bucket, spec_.bucket_begin, spec_.bucket_end - 1);
  }
  return OkStatus();
}

Status SparseTable::CheckKept(std::span<const uint64_t> ids) const {
  for (const uint64_t id : ids) {
    if (id < static_cast<uint64_t>(spec_.height()) && kept_[static_cast<size_t>(RowBucket(id))]) {
      continue;
    }
    return CheckIds({&id, 1}, false);
  }
  return OkStatus();
}

void SparseTable::Keep(int bucket, bool served) {
  moved_ = true;
  kept_[static_cast<size_t>(bucket)] = true;
  served_[static_cast<size_t>(bucket)] = served;
}

RowValues SparseTable::Previous(std::span<const int> buckets) const {
  std::bitset<kRowBuckets> wanted;
  for (const int bucket : buckets) wanted[static_cast<size_t>(bucket)] = true;
  const RowValues all = Previous();
  RowValues rows{.variable = spec_.variable};
  for (size_t i = 0; i < all.ids.size(); ++i) {
    if (!wanted[static_cast<size_t>(RowBucket(all.ids[i]))]) continue;
    rows.ids.push_back(all.ids[i]);
    const float* const weights = all.content.data() + i * dim();
    rows.content.insert(rows.content.end(), weights, weights + dim());
  }
  return rows;
}

void SparseTable::PinPrevious() {
  if (previous_.empty()) return;
  const RowValues rows = Previous();
  previous_ids_.clear();
  previous_.clear();
  SetPrevious(rows);
}

Status SparseTable::DropBucket(int bucket) {
  BeforeChange(bucket);
  moved_ = true;
  if (idle_ == UntouchedRowPolicy::kFade) PinPrevious();
  kept_[static_cast<size_t>(bucket)] = served_[static_cast<size_t>(bucket)] = false;
  if (tiers_ != nullptr) {
    std::vector<uint64_t> cold;
    TD_RETURN_IF_ERROR(tiers_->Scan(bucket, [&cold](const ColdRow& row) {
      cold.push_back(row.id);
      return OkStatus();
    }));
    const std::vector<uint64_t> hot = store_.IdsOf(bucket);
    cold.insert(cold.end(), hot.begin(), hot.end());
    TD_RETURN_IF_ERROR(tiers_->Discard(cold));
  }
  for (const uint64_t id : store_.IdsOf(bucket)) {
    uint32_t at = RowStore::kNone;
    store_.Find({&id, 1}, &at);
    store_.Remove(at);
  }
  admission_.Drop(bucket);
  return OkStatus();
}

StatusOr<RowValues> SparseTable::Rows(std::span<const int> buckets, uint64_t version) const {
  RowValues rows{.variable = spec_.variable};
  for (const int bucket : buckets) {
    TD_RETURN_IF_ERROR(AppendBucket(bucket, true, static_cast<uint32_t>(version), rows));
  }
  return rows;
}

Status SparseTable::AppendBucket(int bucket, bool with_slots, uint32_t version, RowValues& out,
                                 const CowTableSnapshot* cut) const {
  const uint32_t age_max = cut == nullptr ? UINT32_MAX : cut->age_max();
  const auto append = [&](uint64_t id, const RowUse& use, const void* row, bool brief) {
    if (version - use.last > age_max) return;
    out.ids.push_back(id);
    const int64_t floats = with_slots ? (brief ? brief_width_ : width_)
                                      : (brief ? accessor_.columns_at_first() : dim_);
    const size_t begin = out.content.size();
    out.content.resize(begin + static_cast<size_t>(with_slots ? floats : dim_), 0.0f);
    std::memcpy(out.content.data() + begin, row, static_cast<size_t>(floats) * sizeof(float));
    if (with_slots) out.use.push_back({use.show, version - use.last, use.click, brief});
  };
  const auto append_at = [&append](const RowStore& store, uint32_t at) {
    append(store.Id(at), store.Use(at), store.Row(at), store.brief(at));
  };
  std::vector<uint64_t> ids = store_.IdsOf(bucket), changed;
  if (cut != nullptr) changed = cut->SavedIds(bucket);
  if (!changed.empty()) {
    const std::vector<uint64_t> now = std::exchange(ids, {});
    std::ranges::set_union(now, changed, std::back_inserter(ids));
  }
  std::vector<uint32_t> at(ids.size());
  store_.Find(ids, at.data());
  // Reserves memory for the first page of a full read; other pages grow or have few rows.
  if (out.ids.empty() && age_max == UINT32_MAX) {
    size_t floats = 0;
    for (const uint32_t place : at) floats += place == RowStore::kNone ? 0 : store_.floats(place);
    out.content.reserve(floats);
    out.ids.reserve(ids.size());
    out.use.reserve(ids.size());
  }
  size_t next = 0;
  const auto append_below = [&](uint64_t id) {
    for (; next < ids.size() && ids[next] < id; ++next) {
      const auto saved = changed.empty() ? CowTableSnapshot::Saved() : cut->Find(ids[next]);
      if (!saved.kept) append_at(store_, at[next]);
      if (saved.there) append_at(cut->rows(), saved.at);
    }
  };
  if (tiers_ != nullptr) {
    TD_RETURN_IF_ERROR(tiers_->Scan(bucket, [&](const ColdRow& row) {
      append_below(row.id);
      // A saved row is among `ids`.
      if (next == ids.size() || ids[next] != row.id) append(row.id, row.use, row.values, row.brief);
      return OkStatus();
    }));
  }
  append_below(UINT64_MAX);
  if (!with_slots) return OkStatus();
  std::vector<WaitingRow> waiting = admission_.OfBucket(bucket, version);
  if (cut != nullptr) waiting = cut->Waiting(bucket, waiting);
  out.waiting.insert(out.waiting.end(), waiting.begin(), waiting.end());
  return OkStatus();
}

StatusOr<TablePage> SparseTable::Page(int bucket, bool with_slots, uint64_t bytes_max,
                                      uint64_t version, int end) const {
  TablePage page;
  page.rows.variable = spec_.variable;
  if (with_slots) {
    page.slots = updater_.slots();
    page.slot_start = updater_.slot_start();
  }
  const auto bytes = [&page] {
    return page.rows.content.size() * sizeof(float) + page.rows.waiting.size() * sizeof(WaitingRow);
  };
  for (; bucket < end && bytes() < bytes_max; ++bucket) {
    if (!served_[static_cast<size_t>(bucket)]) continue;
    TD_RETURN_IF_ERROR(AppendBucket(bucket, with_slots, static_cast<uint32_t>(version), page.rows));
  }
  page.next_bucket = bucket;
  return page;
}

}  // namespace tandem::pserver
