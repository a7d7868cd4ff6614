// The rows of one table that a server owns. The first gradient of a row creates the row. The
// initial values of a row are a function of its id (FillInitial), so they depend neither on the
// order of creation nor on the number of servers. An absent row reads as its initial values. If
// TableRules delay the creation of rows, an absent row reads as zeros. TableRules may also remove
// rows.
//
// A row has an id, use data, weights and optimizer slots (table_row_set.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pserver/state/changes.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/values.h"
#include "pserver/tables/bucket_ownership.h"
#include "pserver/tables/cow_table_snapshot.h"
#include "pserver/tables/previous_weights.h"
#include "pserver/tables/row_updater.h"
#include "pserver/tables/rows/changed_rows.h"
#include "pserver/tables/rows/row_check_schedule.h"
#include "pserver/tables/rows/row_parts.h"
#include "pserver/tables/rows/row_reader.h"
#include "pserver/tables/rows/rows_gradient.h"
#include "pserver/tables/rows/table_row_set.h"

namespace tandem::pserver {

// One table of rows with its optimizer and rules. Not thread-safe.
class SparseTable {
 public:
  // `backend`, `device` and `workers` must outlive the table. `workers` null: only the calling
  // thread works. `changed_rows_max`: maximum number of changed rows that the table remembers
  // (ChangedRows); 0: none. It remembers none if the optimizer changes rows that have no gradient
  // in a step. UNIMPLEMENTED: the optimizer needs norms of whole parameters, or changes rows that
  // never had a gradient, or changes rows without a gradient in a step while the accessor has brief
  // rows.
  static StatusOr<std::unique_ptr<SparseTable>> Make(const TableSpec& spec,
                                                     const graph::OptimizerSpec& optimizer,
                                                     const exec::Backend& backend, Device& device,
                                                     ForkJoin* workers = nullptr,
                                                     size_t changed_rows_max = 0);
  // Bytes of memory that the table needs if every possible row exists. `may_get_all`: the server
  // may receive all row buckets.
  double bytes_max(bool may_get_all = false) const;
  // Limits the memory of the rows to `bytes` bytes; further rows move to `cold`, which must outlive
  // the table. REQUIRES: the table is empty. UNIMPLEMENTED: the optimizer changes rows that have no
  // gradient in a step.
  Status Limit(ColdStore& cold, uint64_t bytes);

  const TableSpec& spec() const { return spec_; }
  size_t rows() const { return rows_.size(); }
  TableInfo Info() const;
  // Number of values of a row in a push.
  int64_t push_width() const { return rows_.accessor().counts() + dim_; }

  // ---- Buckets ----------------------------------------------------------------------------------
  const BucketOwnership& buckets() const { return buckets_; }
  // Adds a bucket to the kept buckets, and sets whether this server serves its rows.
  void Keep(int bucket, bool served) { buckets_.Keep(bucket, served); }
  // Removes a bucket with its rows.
  Status DropBucket(int bucket);
  // Returns the rows of `buckets` with their slots, and the rows of `buckets` that wait for
  // admission. The ages of rows are relative to `version`.
  StatusOr<RowValues> Rows(std::span<const int> buckets, uint64_t version) const;

  // ---- Rows -------------------------------------------------------------------------------------
  // If rows may be outside memory, each of these functions may fail. DATA_LOSS, UNAVAILABLE: the
  // rows outside memory cannot be read.

  // Checks the ids and the counts of a push. INVALID_ARGUMENT, OUT_OF_RANGE: an error of
  // BucketOwnership::CheckServed (ascending ids). INVALID_ARGUMENT: an error of
  // RowAccessor::CheckCounts.
  Status CheckPush(const RowsGradient& gradient) const;
  // Makes room in memory, then fetches the rows of `ids`. If the next call is Apply with the same
  // ids, Apply needs no further read or room for these rows. RESOURCE_EXHAUSTED: there is no room.
  Status Prepare(std::span<const uint64_t> ids) { return rows_.Prepare(ids); }
  // Begins the update from `version` to `version` + 1. If the rules have a check before this update
  // (RowCheckSchedule::Next), decays and removes rows. `event_time_ms`: the highest event time of
  // the applied pushes; 0: unknown. `keep_previous`: whether Pull can return the weights before
  // this update.
  Status Begin(uint64_t version, int64_t event_time_ms, bool keep_previous);
  // Makes one optimizer step with the sum of `gradients`, added in their given order. REQUIRES:
  // CheckPush returned OK for each gradient. The caller calls Apply once after each Begin.
  Status Apply(std::span<const RowsGradient> gradients, float learning_rate);
  // Writes the weights of `ids` to `out` [ids, dim]. `previous`: the weights before the last Begin.
  // REQUIRES: BucketOwnership::CheckServed returned OK for `ids`.
  Status Pull(std::span<const uint64_t> ids, bool previous, float* out);
  // The weights before the last Begin. Only rows that Begin removed or Apply changed have an entry.
  const PreviousWeights& previous() const { return previous_; }
  void SetPrevious(const RowValues& rows) { previous_.Set(rows); }
  // Replaces or adds rows with their slots. Their ages are relative to `version`. INVALID_ARGUMENT,
  // OUT_OF_RANGE: the values do not fit, or this server does not keep a row; no row changes. After
  // any other error, some rows may have changed.
  Status SetRows(const RowValues& values, uint64_t version);
  // Sets a slot of one number. NOT_FOUND: the slot is unknown (the message has the nearest name).
  Status SetScalar(const std::string& slot, float value);
  const std::vector<std::pair<std::string, float>>& scalars() const { return updater_.scalars(); }
  RowCheckSchedule& schedule() { return schedule_; }  // the checks of the rules

  // ---- Snapshots --------------------------------------------------------------------------------
  // Returns a snapshot of the table at `version`. `since`: the snapshot has only the rows that
  // changed after this version; nullopt: the snapshot has all rows.
  StatusOr<TableSnapshot> Snapshot(uint64_t version, std::optional<uint64_t> since = {}) const;
  // Begins a snapshot whose buckets are copied one after another while the table changes. `since`:
  // as for Snapshot.
  void BeginSnapshot(uint64_t version, std::optional<uint64_t> since = {});
  CowTableSnapshot& snapshot() { return snapshot_; }  // the snapshot that BeginSnapshot began

 private:
  friend class TableReads;  // the reads of readers that are no trainers (table_reads.h)

  // A row that the current step creates.
  struct NewRow {
    size_t position;     // position in the ids of the step
    const float* fresh;  // initial values of the row; null: the values must be generated
  };

  SparseTable(const TableSpec& spec, graph::UntouchedRowPolicy idle, RowUpdater updater,
              ForkJoin* workers, size_t changed_rows_max);
  // Number of rows that a read of `rows` rows fetches into memory together. During the read, the
  // memory may exceed its limit by these rows.
  size_t RowsOfRead(size_t rows);
  // Begins `copy` at `version`. `since`: `copy` has only the rows that changed after this version;
  // nullopt: all rows.
  void BeginCopy(CowTableSnapshot& copy, uint64_t version, std::optional<uint64_t> since) const;
  // Returns the rows of the gradient that exist, or that RowAdmission admits now.
  RowsGradient DropRejected(const RowsGradient& gradient);
  // Sets at_ to the indices of `ids`. Adds each absent row to the store and to new_, without a
  // check of the rules. The values of the added rows are not set yet.
  Status Place(std::span<const uint64_t> ids);
  Status AddNew(std::span<const uint64_t> ids);  // adds the rows of new_ to the store
  // Sets the initial values of new rows among the rows [begin, end) of the step. Adds the pushed
  // counts to all rows [begin, end).
  void CountRows(std::span<const uint64_t> ids, const float* pushed, size_t begin, size_t end);
  Status UpdateTouched(std::span<const uint64_t> ids, const float* gradients, float rate);
  Status UpdateAll(std::span<const uint64_t> ids, const float* gradients, float rate);
  // Extends the brief rows of the step that reach the threshold for full rows.
  Status Extend(std::span<const uint64_t> ids);
  // Writes to `out` the weights that the row at index `at` had before the step. Called before the
  // row changes.
  void CopyPrevious(uint32_t at, float* out) const;

  const TableSpec spec_;
  BucketOwnership buckets_;
  const graph::UntouchedRowPolicy idle_;
  const int64_t dim_;  // number of weights of a row
  TableRowSet rows_;
  RowCheckSchedule schedule_;
  uint32_t version_ = 0;  // version that the last Begin received
  uint64_t dropped_ = 0, removed_ = 0;
  RowUpdater updater_;
  RowParts parts_;
  RowReader reader_;
  RowsGradientMerger merger_;
  std::vector<uint32_t> at_;  // indices of the rows of the step, in the order of their ids
  std::vector<NewRow> new_;   // the new rows of the step, by ascending positions
  uint32_t new_from_ = 0;     // index of the first new row of the step
  PreviousWeights previous_;
  ChangedRows changed_;
  CowTableSnapshot snapshot_;
};

}  // namespace tandem::pserver
