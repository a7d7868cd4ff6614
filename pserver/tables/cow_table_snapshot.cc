#include "pserver/tables/cow_table_snapshot.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::pserver {

void CowTableSnapshot::Save(uint64_t id, const RowStore& rows, uint32_t at,
                            const WaitingRow* waiting) {
  const uint32_t before = rows_.size();
  const bool there = at != RowStore::kNone;
  const StatusOr<uint32_t> kept = rows_.FindOrAdd(id, there && rows.brief(at));
  if (!kept.ok()) return Fail(kept.status());
  if (rows_.size() == before) return;
  if (waiting != nullptr) waiting_[RowBucket(id)].push_back(*waiting);
  if (!there) return;
  std::copy_n(rows.Row(at), rows.floats(at), rows_.Row(*kept));
  rows_.SetUse(*kept, rows.Use(at));
  rows_.Mark(*kept) = kThere;
}

CowTableSnapshot::Saved CowTableSnapshot::Find(uint64_t id) const {
  Saved saved;
  rows_.Find({&id, 1}, &saved.at);
  saved.kept = saved.at != RowStore::kNone;
  saved.there = saved.kept && rows_.Mark(saved.at) == kThere;
  return saved;
}

std::vector<WaitingRow> CowTableSnapshot::Waiting(int bucket,
                                                  std::span<const WaitingRow> now) const {
  std::vector<WaitingRow> then;
  for (const WaitingRow& row : now) {
    if (!Find(row.id).kept) then.push_back(row);
  }
  if (const auto saved = waiting_.find(bucket); saved != waiting_.end()) {
    then.insert(then.end(), saved->second.begin(), saved->second.end());
  }
  std::ranges::sort(then, {}, &WaitingRow::id);
  return then;
}

void CowTableSnapshot::Add(int bucket, RowValues rows) {
  pending_.reset(static_cast<size_t>(bucket));
  if (rows.ids.empty() && rows.waiting.empty()) return;
  buckets_[bucket] = std::move(rows);
}

void CowTableSnapshot::Fail(const Status& status) {
  status_.Update(status);
  pending_.reset();
}

StatusOr<TableSnapshot> CowTableSnapshot::Take() {
  CHECK(pending_.none());
  TD_RETURN_IF_ERROR(status_);
  for (auto& [bucket, rows] : buckets_) image_.buckets.emplace_back(bucket, std::move(rows));
  return std::move(image_);
}

}  // namespace tandem::pserver
