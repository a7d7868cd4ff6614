// The rows of one table that a server owns. The first gradient of a row creates it with the initial
// values that FillInitial derives from its id. The values therefore depend neither on the order of
// creation nor on the number of servers. An absent row reads as its initial values. TableRules may
// admit rows later (they read as zeros until then) and may remove rows.
//
// A row has an id, use data, weights and optimizer slots (table_row_set.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pserver/state/shard_config.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/values.h"
#include "pserver/tables/bucket_ownership.h"
#include "pserver/tables/cow_table_snapshot.h"
#include "pserver/tables/previous_weights.h"
#include "pserver/tables/row_parts.h"
#include "pserver/tables/row_reader.h"
#include "pserver/tables/row_updater.h"
#include "pserver/tables/rows_gradient.h"
#include "pserver/tables/table_row_set.h"

namespace tandem::pserver {

// One table of rows with its optimizer and rules. Not thread-safe.
class SparseTable {
 public:
  // `backend`, `device` and `workers` must outlive the table. A null `workers` means that only the
  // calling thread works. UNIMPLEMENTED: the optimizer needs norms of whole parameters, or changes
  // rows that never had a gradient.
  static StatusOr<std::unique_ptr<SparseTable>> Make(const TableSpec& spec,
                                                     const OptimizerSpec& optimizer,
                                                     const Backend& backend, Device& device,
                                                     ForkJoin* workers = nullptr);
  // Bytes of memory if every possible row exists.
  double bytes_max(bool may_get_all = false) const;
  // Moves rows to `cold` if their memory exceeds `bytes`. `cold` must outlive the table. REQUIRES:
  // the table is empty. UNIMPLEMENTED: the optimizer changes rows without a gradient (Make has the
  // same error for accessors with brief rows).
  Status Limit(ColdStore& cold, uint64_t bytes);

  const TableSpec& spec() const { return spec_; }
  size_t rows() const { return rows_.size(); }
  TableInfo Info() const;
  // Numbers per row in a push.
  int64_t push_width() const { return rows_.accessor().counts() + dim_; }

  // ---- Buckets ----------------------------------------------------------------------------------
  const BucketOwnership& buckets() const { return buckets_; }
  // Keeps a bucket and sets whether its rows are read and updated here.
  void Keep(int bucket, bool served) { buckets_.Keep(bucket, served); }
  // Removes a bucket with its rows.
  Status DropBucket(int bucket);
  // The rows of `buckets` with their slots, and their waiting rows.
  StatusOr<RowValues> Rows(std::span<const int> buckets, uint64_t version) const;
  // Rows of whole served buckets in [bucket, end), up to about `bytes_max` bytes.
  StatusOr<TablePage> Page(int bucket, bool with_slots, uint64_t bytes_max, uint64_t version,
                           int end = kRowBuckets) const;

  // ---- Rows -------------------------------------------------------------------------------------
  // With rows outside memory, each function fails if they cannot be read: DATA_LOSS, UNAVAILABLE.

  // INVALID_ARGUMENT, OUT_OF_RANGE: as BucketOwnership::CheckServed with ascending ids.
  // INVALID_ARGUMENT: impossible counts.
  Status CheckPush(const RowsGradient& gradient) const;
  // Makes room, then fetches the rows of `ids` into memory. An Apply with these ids directly after
  // it does not fail for missing rows or room. RESOURCE_EXHAUSTED: no room.
  Status Prepare(std::span<const uint64_t> ids) { return rows_.Prepare(ids); }
  // Begins the update from `version` to `version` + 1 and removes the rows that the rules remove
  // now. With `keep_previous`, Pull can return the weights before this update.
  Status Begin(uint64_t version, bool keep_previous);
  // One optimizer step with the sum of the gradients, added in the given order. REQUIRES: CheckPush
  // returned OK for each gradient; call once after Begin.
  Status Apply(std::span<const RowsGradient> gradients, float learning_rate);
  // Writes the weights of `ids` to `out` [ids, dim]. `previous`: weights before the last Begin.
  // REQUIRES: CheckServed of the ids returned OK.
  Status Pull(std::span<const uint64_t> ids, bool previous, float* out);
  // The weights before the last Begin, for rows that Begin removed or Apply changed.
  const PreviousWeights& previous() const { return previous_; }
  void SetPrevious(const RowValues& rows) { previous_.Set(rows); }
  // Replaces or adds rows with their slots, as they are at `version`. On an error no row changes,
  // except if there is no room.
  Status SetRows(const RowValues& values, uint64_t version);
  // Sets a slot of one number. NOT_FOUND: unknown slot (the message has the nearest name).
  Status SetScalar(const std::string& slot, float value);
  const std::vector<std::pair<std::string, float>>& scalars() const { return updater_.scalars(); }

  // ---- Snapshots --------------------------------------------------------------------------------
  // `since`: only rows that changed since this version; not set: all rows.
  StatusOr<TableSnapshot> Snapshot(uint64_t version, std::optional<uint64_t> since = {}) const;
  // Begins a snapshot that is copied bucket by bucket while the table changes.
  void BeginSnapshot(uint64_t version, std::optional<uint64_t> since = {});
  CowTableSnapshot& snapshot() { return snapshot_; }  // begun by BeginSnapshot

 private:
  // A row that a step creates.
  struct NewRow {
    size_t position;     // in the ids of the step
    const float* fresh;  // initial values; null: they must be generated
  };

  SparseTable(const TableSpec& spec, UntouchedRowPolicy idle, RowUpdater updater,
              ForkJoin* workers);
  // Begins `copy` with the rows that changed since `since`.
  void BeginCopy(CowTableSnapshot& copy, uint64_t version, std::optional<uint64_t> since) const;
  // The part of the gradient for rows that exist or are admitted now.
  RowsGradient DropRejected(const RowsGradient& gradient);
  // Sets at_ to the indices of `ids`. Adds absent rows without checking the rules and lists them in
  // new_; their values are not set yet.
  Status Place(std::span<const uint64_t> ids);
  Status AddNew(std::span<const uint64_t> ids);  // adds new_ to the store
  // Initialises the new rows among rows [begin, end) of the step, and adds the counts of all.
  void CountRows(std::span<const uint64_t> ids, const float* pushed, size_t begin, size_t end);
  Status UpdateTouched(std::span<const uint64_t> ids, const float* gradients, float rate);
  Status UpdateAll(std::span<const uint64_t> ids, const float* gradients, float rate);
  // Extends the brief rows of the step that reach the threshold.
  Status Extend(std::span<const uint64_t> ids);
  // Writes the weights of the row at index `at` before the step.
  void CopyPrevious(uint32_t at, float* out) const;

  const TableSpec spec_;
  BucketOwnership buckets_;
  const UntouchedRowPolicy idle_;
  const int64_t dim_;  // floats of the weights
  TableRowSet rows_;
  uint32_t version_ = 0;  // version of the last Begin
  uint64_t dropped_ = 0, removed_ = 0;
  RowUpdater updater_;
  RowParts parts_;
  RowReader reader_;
  RowsGradientMerger merger_;
  std::vector<uint32_t> at_;  // indices of the rows of the step
  std::vector<NewRow> new_;   // ascending positions
  uint32_t new_from_ = 0;     // index of the first new row of the step
  PreviousWeights previous_;
  CowTableSnapshot snapshot_;
};

}  // namespace tandem::pserver
