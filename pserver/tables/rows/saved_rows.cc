#include "pserver/tables/rows/saved_rows.h"

#include <algorithm>

#include "common/tables/row_buckets.h"

namespace tandem::pserver {

Status SavedRows::Save(uint64_t id, const RowStore& rows, uint32_t at, const WaitingRow* waiting) {
  TD_REQUIRE(at == RowStore::kNone || rows.Id(at) == id);
  TD_REQUIRE(waiting == nullptr || waiting->id == id);
  const uint32_t before = rows_.size();
  const bool exists = at != RowStore::kNone;
  TD_ASSIGN_OR_RETURN(const uint32_t saved, rows_.FindOrAdd(id, exists && rows.brief(at)));
  if (rows_.size() == before) return OkStatus();
  if (waiting != nullptr) waiting_[RowBucket(id)].push_back(*waiting);
  if (!exists) return OkStatus();
  std::copy_n(rows.Row(at), rows.slabs(rows.brief(at)).floats(), rows_.Row(saved));
  rows_.SetUse(saved, rows.Use(at));
  rows_.Mark(saved) = kExists;
  return OkStatus();
}

SavedRows::State SavedRows::Find(uint64_t id) const {
  State state;
  rows_.Find({&id, 1}, &state.at);
  state.saved = state.at != RowStore::kNone;
  state.exists = state.saved && rows_.Mark(state.at) == kExists;
  return state;
}

std::vector<WaitingRow> SavedRows::Waiting(int bucket, std::span<const WaitingRow> now) const {
  std::vector<WaitingRow> then;
  for (const WaitingRow& row : now) {
    if (!Find(row.id).saved) then.push_back(row);
  }
  if (const auto saved = waiting_.find(bucket); saved != waiting_.end()) {
    then.insert(then.end(), saved->second.begin(), saved->second.end());
  }
  std::ranges::sort(then, {}, &WaitingRow::id);
  return then;
}

}  // namespace tandem::pserver
