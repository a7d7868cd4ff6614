// The rows of one table wherever they are: in memory (row_store.h), outside (row_tiers.h) and,
// without values, waiting for admission (row_admission.h). It reads and writes whole buckets of
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "pserver/state/shard_config.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/values.h"
#include "pserver/tables/row_accessor.h"
#include "pserver/tables/row_admission.h"
#include "pserver/tables/row_store.h"
#include "pserver/tables/row_tiers.h"
#include "pserver/tables/saved_rows.h"

namespace tandem::pserver {

// Rows of the two lengths that the accessor of the table defines. Not thread-safe. If rows may be
// outside memory, each function with a Status fails if they cannot be read: DATA_LOSS, UNAVAILABLE.
class TableRowSet {
 public:
  // The removed row `id` had the first `columns` weights at `weights`, which is not aligned.
  using OnRemoved = std::function<void(uint64_t id, const void* weights, size_t columns)>;
  // Selects the content that AppendBucket reads.
  struct ReadOptions {
    uint32_t version = 0;              // ages are relative to it
    bool with_slots = true;            // false: only weights, without use data and waiting rows
    uint32_t age_max = UINT32_MAX;     // omits rows whose last update is longer ago
    const SavedRows* saved = nullptr;  // the state of its rows replaces that of today
  };

  // A full row has `width` floats, a brief row `brief_width`; 0: there are no brief rows.
  TableRowSet(const TableSpec& spec, int64_t width, int64_t brief_width);
  // RowTiers refers to members.
  TableRowSet(const TableRowSet&) = delete;
  TableRowSet& operator=(const TableRowSet&) = delete;
  // Moves rows to `cold` if their memory exceeds `bytes`. `cold` must outlive this. REQUIRES: there
  // are no rows. Call at most once.
  void Limit(ColdStore& cold, uint64_t bytes);

  const std::string& table() const { return table_; }  // its name
  const RowAccessor& accessor() const { return accessor_; }
  int64_t width(bool brief) const { return brief ? brief_width_ : width_; }
  size_t size() const { return store_.size() + (tiers_ == nullptr ? 0 : tiers_->cold()); }
  // The fields of TableInfo about rows. The others are 0.
  TableInfo Info() const;
  RowStore& store() { return store_; }
  const RowStore& store() const { return store_; }
  RowAdmission& admission() { return admission_; }
  const RowAdmission& admission() const { return admission_; }
  RowTiers* tiers() { return tiers_.get(); }  // null: all rows are in the store

  // Makes room in memory, then fetches the rows of `ids`. RESOURCE_EXHAUSTED: no room.
  Status Prepare(std::span<const uint64_t> ids);
  // INVALID_ARGUMENT: the number of values does not fit the rows and their lengths.
  Status CheckContent(const RowValues& values) const;
  // Replaces or adds rows with their slots, and waiting rows, as they are at `version`. REQUIRES:
  // CheckContent returned OK.
  Status Set(const RowValues& values, uint64_t version);
  // Applies the decay of `version` to all rows and removes those that the rules remove now. Calls
  // `removed` for each and returns their number. Drops waiting rows that are too old.
  StatusOr<size_t> Shrink(uint32_t version, const OnRemoved& removed);
  // Removes the rows of a bucket.
  Status DropBucket(int bucket);
  // Appends the rows of a bucket, by ascending ids, to `out`.
  Status AppendBucket(int bucket, const ReadOptions& options, RowValues& out) const;

 private:
  const TableRules rules_;
  const std::string table_;
  const RowAccessor accessor_;
  const int64_t dim_;  // weights of a full row
  const int64_t width_, brief_width_;
  RowStore store_;
  std::unique_ptr<RowTiers> tiers_;
  RowAdmission admission_;
};

}  // namespace tandem::pserver
