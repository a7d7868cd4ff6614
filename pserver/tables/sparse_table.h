// The rows of one table that a server owns. The first gradient of a row creates the row. Its
// initial values follow from its id (FillInitial). They therefore depend neither on the order of
// creation nor on the number of servers. An absent row reads as its initial values. TableRules may
// delay the creation of rows, which read as zeros until then. TableRules may also remove rows.
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
#include "pserver/tables/row_updater.h"
#include "pserver/tables/rows/row_parts.h"
#include "pserver/tables/rows/row_reader.h"
#include "pserver/tables/rows/rows_gradient.h"
#include "pserver/tables/rows/table_row_set.h"

namespace tandem::pserver {

// One table of rows with its optimizer and rules. Not thread-safe.
class SparseTable {
 public:
  // `backend`, `device` and `workers` must outlive the table. `workers` null: only the calling
  // thread works. UNIMPLEMENTED: the optimizer needs norms of whole parameters, or changes rows
  // that never had a gradient. The same error: the accessor has brief rows, and the optimizer
  // changes rows that have no gradient in a step.
  static StatusOr<std::unique_ptr<SparseTable>> Make(const TableSpec& spec,
                                                     const graph::OptimizerSpec& optimizer,
                                                     const exec::Backend& backend, Device& device,
                                                     ForkJoin* workers = nullptr);
  // Bytes of memory that the table needs if every possible row exists. `may_get_all`: the server
  // may receive all row buckets.
  double bytes_max(bool may_get_all = false) const;
  // Moves rows to `cold` if their memory exceeds `bytes` bytes. `cold` must outlive the table.
  // REQUIRES: the table is empty. UNIMPLEMENTED: the optimizer changes rows that have no gradient
  // in a step.
  Status Limit(ColdStore& cold, uint64_t bytes);

  const TableSpec& spec() const { return spec_; }
  size_t rows() const { return rows_.size(); }
  TableInfo Info() const;
  // Number of values of a row in a push.
  int64_t push_width() const { return rows_.accessor().counts() + dim_; }

  // ---- Buckets ----------------------------------------------------------------------------------
  const BucketOwnership& buckets() const { return buckets_; }
  // Keeps a bucket, and sets whether its rows are read and updated on this server.
  void Keep(int bucket, bool served) { buckets_.Keep(bucket, served); }
  // Removes a bucket with its rows.
  Status DropBucket(int bucket);
  // Returns the rows of `buckets` with their slots, and the rows of `buckets` that wait for
  // admission.
  StatusOr<RowValues> Rows(std::span<const int> buckets, uint64_t version) const;
  // Returns rows of whole served buckets in [bucket, end), up to about `bytes_max` bytes.
  StatusOr<TablePage> Page(int bucket, bool with_slots, uint64_t bytes_max, uint64_t version,
                           int end = kRowBuckets) const;

  // ---- Rows -------------------------------------------------------------------------------------
  // If rows may be outside memory, each of these functions may fail. DATA_LOSS, UNAVAILABLE: the
  // rows outside memory cannot be read.

  // INVALID_ARGUMENT, OUT_OF_RANGE: as BucketOwnership::CheckServed with ascending ids.
  // INVALID_ARGUMENT: the counts are impossible.
  Status CheckPush(const RowsGradient& gradient) const;
  // Makes room, then fetches the rows of `ids` into memory. If the next call is Apply with these
  // ids, Apply does not fail because of missing rows or room. RESOURCE_EXHAUSTED: there is no room.
  Status Prepare(std::span<const uint64_t> ids) { return rows_.Prepare(ids); }
  // Begins the update from `version` to `version` + 1, and removes the rows that the rules remove
  // now. `keep_previous`: Pull can return the weights before this update.
  Status Begin(uint64_t version, bool keep_previous);
  // Makes one optimizer step with the sum of `gradients`, added in their order. REQUIRES: CheckPush
  // returned OK for each gradient. Call it once after Begin.
  Status Apply(std::span<const RowsGradient> gradients, float learning_rate);
  // Writes the weights of `ids` to `out` [ids, dim]. `previous`: the weights before the last Begin.
  // REQUIRES: BucketOwnership::CheckServed returned OK for `ids`.
  Status Pull(std::span<const uint64_t> ids, bool previous, float* out);
  // The weights before the last Begin, of the rows that Begin removed or Apply changed.
  const PreviousWeights& previous() const { return previous_; }
  void SetPrevious(const RowValues& rows) { previous_.Set(rows); }
  // Replaces or adds rows with their slots, as of `version`. On an error no row changes, except if
  // there is no room.
  Status SetRows(const RowValues& values, uint64_t version);
  // Sets a slot of one number. NOT_FOUND: the slot is unknown (the message has the nearest name).
  Status SetScalar(const std::string& slot, float value);
  const std::vector<std::pair<std::string, float>>& scalars() const { return updater_.scalars(); }

  // ---- Snapshots --------------------------------------------------------------------------------
  // Returns a snapshot of the table. `since`: the snapshot has only the rows that changed since
  // this version; nullopt: the snapshot has all rows.
  StatusOr<TableSnapshot> Snapshot(uint64_t version, std::optional<uint64_t> since = {}) const;
  // Begins a snapshot whose buckets are copied one after another while the table changes.
  void BeginSnapshot(uint64_t version, std::optional<uint64_t> since = {});
  CowTableSnapshot& snapshot() { return snapshot_; }  // the snapshot that BeginSnapshot began

 private:
  // A row that the current step creates.
  struct NewRow {
    size_t position;     // position in the ids of the step
    const float* fresh;  // initial values of the row; null: the values must be generated
  };

  SparseTable(const TableSpec& spec, graph::UntouchedRowPolicy idle, RowUpdater updater,
              ForkJoin* workers);
  // Begins `copy` with the rows that changed since version `since`; nullopt: with all rows.
  void BeginCopy(CowTableSnapshot& copy, uint64_t version, std::optional<uint64_t> since) const;
  // Returns the rows of the gradient that exist or are admitted now.
  RowsGradient DropRejected(const RowsGradient& gradient);
  // Sets at_ to the indices of `ids`. Adds absent rows without checking the rules, and lists them
  // in new_. The values of the added rows are not set yet.
  Status Place(std::span<const uint64_t> ids);
  Status AddNew(std::span<const uint64_t> ids);  // adds the rows of new_ to the store
  // Initialises the new rows among the rows [begin, end) of the step. Adds the counts of all these
  // rows.
  void CountRows(std::span<const uint64_t> ids, const float* pushed, size_t begin, size_t end);
  Status UpdateTouched(std::span<const uint64_t> ids, const float* gradients, float rate);
  Status UpdateAll(std::span<const uint64_t> ids, const float* gradients, float rate);
  // Extends the brief rows of the step that reach the threshold for full rows.
  Status Extend(std::span<const uint64_t> ids);
  // Writes the weights that the row at index `at` had before the step.
  void CopyPrevious(uint32_t at, float* out) const;

  const TableSpec spec_;
  BucketOwnership buckets_;
  const graph::UntouchedRowPolicy idle_;
  const int64_t dim_;  // number of weights of a row
  TableRowSet rows_;
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
  CowTableSnapshot snapshot_;
};

}  // namespace tandem::pserver
