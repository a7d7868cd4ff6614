// Rows of a table as they were at the time of a copy-on-write snapshot (cow_table_snapshot.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/values.h"
#include "pserver/tables/row_store.h"

namespace tandem::pserver {

// Save stores the state of a row once, before its first change. Not thread-safe.
class SavedRows {
 public:
  // State of a row at the time of the snapshot.
  struct State {
    bool saved = false;   // false: Save was not called for the row, so it has not changed
    bool exists = false;  // the row existed; `at` is its index in rows()
    uint32_t at = RowStore::kNone;
  };

  // `floats`, `brief`: as for the table's RowStore.
  SavedRows(int64_t floats, int64_t brief) : rows_(floats, brief) {}

  // Saves the row at index `at` of `rows`. kNone saves the fact that the row does not exist. Does
  // nothing if `id` is already saved. `waiting`: the row's admission state, or null.
  // RESOURCE_EXHAUSTED: no memory.
  Status Save(uint64_t id, const RowStore& rows, uint32_t at, const WaitingRow* waiting);
  State Find(uint64_t id) const;
  const RowStore& rows() const { return rows_; }
  // Ids of all saved rows of a bucket, ascending.
  std::vector<uint64_t> IdsOf(int bucket) const { return rows_.index().IdsOf(bucket); }
  // The rows of a bucket that waited for admission at the time of the snapshot. `now`: those that
  // wait now.
  std::vector<WaitingRow> Waiting(int bucket, std::span<const WaitingRow> now) const;

 private:
  static constexpr uint8_t kExists = 1;

  RowStore rows_;  // marks: kExists, or 0
  // By bucket: the waiting rows that Save received.
  std::map<int, std::vector<WaitingRow>> waiting_;
};

}  // namespace tandem::pserver
