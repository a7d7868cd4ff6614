// Saves the rows of a table in their state at the time of a copy-on-write snapshot
// (cow_table_snapshot.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "pserver/state/values.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::pserver {

// The saved rows of one snapshot. Save stores the state of a row once, before its first change. Not
// thread-safe.
class SavedRows {
 public:
  // The state of a row at the time of the snapshot.
  struct State {
    bool saved = false;   // false: the row has not changed since the snapshot began
    bool exists = false;  // whether the row existed; if so, `at` is its index in rows()
    uint32_t at = RowStore::kNone;
  };

  // `floats`: number of values of a full row. `brief`: number of values of a brief row
  // (row_accessor.h). Both numbers are those of the table's RowStore.
  SavedRows(int64_t floats, int64_t brief) : rows_(floats, brief) {}

  // Saves row `id`, whose index in `rows` is `at`. If `at` is kNone, saves the fact that the row
  // does not exist. Does nothing if `id` is already saved. `waiting`: the row's admission state, or
  // null. RESOURCE_EXHAUSTED: there is no memory.
  Status Save(uint64_t id, const RowStore& rows, uint32_t at, const WaitingRow* waiting);
  State Find(uint64_t id) const;
  const RowStore& rows() const { return rows_; }
  // Returns the ids of all saved rows of a bucket, ascending.
  std::vector<uint64_t> IdsOf(int bucket) const { return rows_.index().IdsOf(bucket); }
  // Returns the rows of a bucket that waited for admission at the time of the snapshot. `now`: the
  // rows of the bucket that wait now.
  std::vector<WaitingRow> Waiting(int bucket, std::span<const WaitingRow> now) const;

 private:
  static constexpr uint8_t kExists = 1;

  RowStore rows_;  // the saved rows; the mark is kExists if the row existed, otherwise 0
  // By bucket: the waiting rows that Save received.
  std::map<int, std::vector<WaitingRow>> waiting_;
};

}  // namespace tandem::pserver
