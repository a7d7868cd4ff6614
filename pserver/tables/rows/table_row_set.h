// All rows of one table: rows in memory (row_store.h), rows outside memory (row_tiers.h), and rows
// without values that wait for admission (row_admission.h). Reads and writes whole buckets of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "pserver/state/shard_config.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/values.h"
#include "pserver/tables/rows/row_accessor.h"
#include "pserver/tables/rows/row_admission.h"
#include "pserver/tables/rows/row_store.h"
#include "pserver/tables/rows/row_tiers.h"
#include "pserver/tables/rows/saved_rows.h"

namespace tandem::pserver {

// The rows of a table, which have the two lengths that the accessor defines. Not thread-safe. If
// rows may be outside memory, each function that returns a status may fail. DATA_LOSS, UNAVAILABLE:
// the rows outside memory cannot be read.
class TableRowSet {
 public:
  // Called for a removed row. `weights`: the first `columns` weights of the row, not aligned.
  using OnRemoved = std::function<void(uint64_t id, const void* weights, size_t columns)>;
  // Selects what AppendBucket reads.
  struct ReadOptions {
    uint32_t version = 0;           // version to which the ages of rows are relative
    bool with_slots = true;         // false: reads only weights, no use data and no waiting rows
    uint32_t age_max = UINT32_MAX;  // maximum age of a row; older rows are omitted
    std::optional<float> score_min = std::nullopt;  // rows with a lower score are omitted
    // Rows that are read in their saved state instead of their current state; null: none.
    const SavedRows* saved = nullptr;
    // Increases by the number of rows that were looked at, omitted rows included; null: not
    // counted.
    size_t* examined = nullptr;
  };

  // `width`: number of floats of a full row. `brief_width`: number of floats of a brief row; 0:
  // there are no brief rows.
  TableRowSet(const TableSpec& spec, int64_t width, int64_t brief_width);
  // Not copyable, because RowTiers refers to members of this object.
  TableRowSet(const TableRowSet&) = delete;
  TableRowSet& operator=(const TableRowSet&) = delete;
  // Limits the memory of the rows to `bytes` bytes; further rows move to `cold`, which must outlive
  // this object. REQUIRES: there are no rows, and Limit was not called before.
  void Limit(ColdStore& cold, uint64_t bytes);

  const std::string& table() const { return table_; }  // name of the table
  const RowAccessor& accessor() const { return accessor_; }
  int64_t width(bool brief) const { return brief ? brief_width_ : width_; }
  size_t size() const { return store_.size() + (tiers_ == nullptr ? 0 : tiers_->cold()); }
  // Returns the fields of TableInfo that concern rows. The other fields are 0.
  TableInfo Info() const;
  RowStore& store() { return store_; }
  const RowStore& store() const { return store_; }
  RowAdmission& admission() { return admission_; }
  const RowAdmission& admission() const { return admission_; }
  RowTiers* tiers() { return tiers_.get(); }  // null: all rows are in store()

  // Makes room in memory, then fetches the rows of `ids` from the cold store. RESOURCE_EXHAUSTED:
  // there is no room.
  Status Prepare(std::span<const uint64_t> ids);
  // INVALID_ARGUMENT: the number of values does not match the rows and their lengths.
  Status CheckContent(const RowValues& values) const;
  // Replaces or adds rows with their slots, and waiting rows. Their ages are relative to `version`.
  // REQUIRES: CheckContent returned OK.
  Status Set(const RowValues& values, uint64_t version);
  // Checks all rows: multiplies their counts by RowCheck::decay, and removes the rows that the
  // rules remove. Calls `removed` for each removed row and returns their number. Also drops the
  // rows that wait for admission and had no gradient for more than RowCheck::age_max versions.
  StatusOr<size_t> Shrink(const RowCheck& check, const OnRemoved& removed);
  // Removes all rows of a bucket: in memory, outside memory, and waiting rows.
  Status DropBucket(int bucket);
  // Appends the rows of a bucket, by ascending ids, to `out`.
  Status AppendBucket(int bucket, const ReadOptions& options, RowValues& out) const;

 private:
  const TableRules rules_;
  const std::string table_;
  const RowAccessor accessor_;
  const int64_t dim_;  // number of weights of a full row
  const int64_t width_, brief_width_;
  RowStore store_;
  std::unique_ptr<RowTiers> tiers_;
  RowAdmission admission_;
};

}  // namespace tandem::pserver
