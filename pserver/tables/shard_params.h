// The parameters of one shard: dense slices and tables of rows. It implements the operations that
// concern both: initial values, pushes and pulls, buckets. Parts of it gather a step and copy
// snapshots.
//
// One index names a slice or a table: indices below slices().size() are slices, and slices().size()
// + i is table i. The index of a slice changes when slices are added or removed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pserver/state/bucket_move.h"
#include "pserver/state/pull.h"
#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/values.h"
#include "pserver/tables/dense_table.h"
#include "pserver/tables/init_progress.h"
#include "pserver/tables/shard_snapshotter.h"
#include "pserver/tables/sparse_tables.h"
#include "pserver/tables/step_gradients.h"

namespace tandem::pserver {

// Owns the slices and tables of one shard. Not thread-safe (the shard's lock guards it). The
// buffers it returns are shared and immutable, so any thread may read them.
class ShardParams {
 public:
  // Devices and backends of the values. All must outlive the parameters.
  struct Place {
    const Backend& slice_backend;
    Device& slice_device;
    const Backend& row_backend;
    Device& row_device;
    std::shared_ptr<Arena> arena;  // for returned buffers; null or full: other memory is used
    TableMemory table_memory;
    ForkJoin* workers = nullptr;  // null: only the calling thread works
  };
  // Allocates memory for all values. No values are set yet.
  static StatusOr<std::unique_ptr<ShardParams>> Make(const ShardConfig& config, const Place& place);

  DenseTable& slices() { return *slices_; }
  const DenseTable& slices() const { return *slices_; }
  SparseTables& tables() { return *tables_; }
  const SparseTables& tables() const { return *tables_; }
  bool IsTable(int index) const { return index >= static_cast<int>(slices_->size()); }

  // ---- Initial values ---------------------------------------------------------------------------
  InitProgress& progress() { return progress_; }
  const InitProgress& progress() const { return progress_; }
  // Sets initial values. Marks slices and tables as set only if all values could be set.
  // INVALID_ARGUMENT: a value does not fit or is not finite. NOT_FOUND: unknown variable.
  Status Init(uint64_t version, const std::vector<SliceValues>& params,
              const std::vector<SlotValues>& slots, const std::vector<RowValues>& rows);

  // ---- Pushes -----------------------------------------------------------------------------------
  // Returns the served slice that holds `range`. OUT_OF_RANGE: according to `moves`, another server
  // owns the slice or may own it.
  StatusOr<int> FindRange(const PullRange& range, const MoveState& moves) const;
  // Returns PushTicket::slices of this push. INVALID_ARGUMENT: a part does not fit, or is repeated
  // in the message or (sync) in the step.
  StatusOr<std::vector<int>> FindPush(const PushHead& head, const MoveState& moves) const;
  // Checks the ids and counts of the push, then fetches its rows into memory
  // (SparseTable::Prepare).
  Status PrepareRows(const PushHead& head, const PushTicket& ticket);
  // Applies the push immediately (a_sync), from `version` to the next version.
  Status Apply(const PushHead& head, const PushTicket& ticket, uint64_t version);

  // ---- The step being gathered (sync) -----------------------------------------------------------
  StepGradients& step() { return step_; }
  const StepGradients& step() const { return step_; }
  // Applies the gathered gradients of `ranks` (ascending, at least one), from `version` to the next
  // version, and drops all gathered gradients. REQUIRES: StepGradients::GaveAll for each rank.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate, uint64_t version);

  // ---- Pulls ------------------------------------------------------------------------------------
  // REQUIRES: SparseTables::CheckRows returned OK. `previous`: values before the last update.
  StatusOr<PulledSlice> Rows(const PullRows& rows, bool previous);
  // Optimizer slots of `variables` (empty: all), without slices that are only offered to this
  // server.
  StatusOr<std::vector<SlotValues>> Slots(const std::vector<std::string>& variables,
                                          const MoveState& moves);

  // ---- Buckets (row buckets, and slices that move) ----------------------------------------------
  bool Serves(int bucket) const;
  bool ServesAny() const { return slices_->size() != 0 || tables_->ServesAny(); }
  void Keep(int bucket, bool served);
  // Removes a bucket with its contents.
  Status Drop(int bucket);
  // Keeps, serves or removes each bucket according to the ownership of server `server` in `moves`.
  Status PlaceBuckets(const MoveState& moves, int server);
  // REQUIRES: no slice has the same bucket or elements.
  Status Add(const SliceMigration& slice);

  // ---- Snapshots --------------------------------------------------------------------------------
  ShardSnapshotter& snapshotter() { return snapshotter_; }

 private:
  ShardParams(const ShardConfig& config, std::unique_ptr<DenseTable> slices,
              std::unique_ptr<SparseTables> tables);
  int TableOf(int index) const {
    TD_REQUIRE(IsTable(index));
    return index - static_cast<int>(slices_->size());
  }
  StatusOr<int> FindTablePush(const PushHead& head, size_t i) const;
  bool IsGathered(int index, int trainer) const { return sync_ && step_.Has(index, trainer); }
  Status InitSlot(const SlotValues& slot);
  Status InitRows(const RowValues& rows, uint64_t version);

  const bool sync_;
  const std::unique_ptr<DenseTable> slices_;
  const std::unique_ptr<SparseTables> tables_;
  InitProgress progress_;
  StepGradients step_;
  ShardSnapshotter snapshotter_;
};

}  // namespace tandem::pserver
