// The parameters of one shard: dense slices and tables of rows. ShardParams implements initial
// values, pushes, pulls and buckets for slices and tables together. StepGradients gathers the
// gradients of a step, and ShardSnapshotter copies snapshots.
//
// An index names a slice or a table: indices below slices().size() are slices, and slices().size()
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
// returned buffers are shared and immutable, so any thread may read them.
class ShardParams {
 public:
  // The devices that store the values, and the backends that compute the updates. All objects that
  // Place names must outlive the parameters.
  struct Place {
    const exec::Backend& slice_backend;
    Device& slice_device;
    const exec::Backend& row_backend;
    Device& row_device;
    // Memory for returned buffers; if null or full, other memory is used.
    std::shared_ptr<Arena> arena;
    TableMemory table_memory;
    ForkJoin* workers = nullptr;  // threads for updates; null: only the calling thread works
  };
  // Allocates memory for all values. Init sets the initial values.
  static StatusOr<std::unique_ptr<ShardParams>> Make(const ShardConfig& config, const Place& place);

  DenseTable& slices() { return *slices_; }
  const DenseTable& slices() const { return *slices_; }
  SparseTables& tables() { return *tables_; }
  const SparseTables& tables() const { return *tables_; }
  bool IsTable(int index) const { return index >= static_cast<int>(slices_->size()); }

  // ---- Initial values ---------------------------------------------------------------------------
  InitProgress& progress() { return progress_; }
  const InitProgress& progress() const { return progress_; }
  // Sets initial values. The ages of rows are relative to `version`. If all values could be set,
  // marks in progress() the slices, and the tables whose last rows were sent. INVALID_ARGUMENT: a
  // value has the wrong size or is not finite. NOT_FOUND: a variable is unknown.
  Status Init(uint64_t version, const std::vector<SliceValues>& params,
              const std::vector<SlotValues>& slots, const std::vector<RowValues>& rows);

  // ---- Pushes -----------------------------------------------------------------------------------
  // Returns the index of the served slice that contains `range`. OUT_OF_RANGE: this server does not
  // serve the slice now. NOT_FOUND: the server has no such slice, and slices of this job have not
  // moved.
  StatusOr<int> FindRange(const PullRange& range, const MoveState& moves) const;
  // Returns the index of each tensor of the push (PushTicket::slices). INVALID_ARGUMENT: a tensor
  // has the wrong type or shape, or the trainer sends a second gradient of a slice or table in this
  // message or (sync) in this step. Also the errors of FindRange.
  StatusOr<std::vector<int>> FindPush(const PushHead& head, const MoveState& moves) const;
  // Checks the row ids and counts of a push to tables, and fetches the rows into memory
  // (SparseTable::Prepare).
  Status PrepareRows(const PushHead& head, const PushTicket& ticket);
  // Applies the push immediately (a_sync), as the update from `version` to `version` + 1.
  // `event_time_ms`: the highest event time of the applied pushes, this push included; 0: unknown.
  Status Apply(const PushHead& head, const PushTicket& ticket, uint64_t version,
               int64_t event_time_ms);

  // ---- The step being gathered (sync) -----------------------------------------------------------
  StepGradients& step() { return step_; }
  const StepGradients& step() const { return step_; }
  // Applies the gathered gradients of `ranks` (ascending, at least one), as the update from
  // `version` to `version` + 1. Then drops all gathered gradients. Exception: if this server serves
  // no rows, gradients of tables are neither applied nor dropped. `event_time_ms`: as for Apply.
  // REQUIRES: StepGradients::GaveAll for each rank.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate, uint64_t version,
                       int64_t event_time_ms);

  // ---- Pulls ------------------------------------------------------------------------------------
  // Returns rows of a table. `previous`: returns the weights before the last update. REQUIRES:
  // SparseTables::CheckRows returned OK.
  StatusOr<PulledSlice> Rows(const PullRows& rows, bool previous);
  // Returns the optimizer slots of `variables`; empty: of all variables. Omits slices that another
  // server offers to this server, because this server does not own these slices yet.
  StatusOr<std::vector<SlotValues>> Slots(const std::vector<std::string>& variables,
                                          const MoveState& moves);

  // ---- Buckets (row buckets, and slices that move) ----------------------------------------------
  bool Serves(int bucket) const;
  bool ServesAny() const { return slices_->size() != 0 || tables_->ServesAny(); }
  void Keep(int bucket, bool served);
  // Removes a bucket with its rows or its slice.
  Status Drop(int bucket);
  // Sets the kept and the served buckets as `moves` says. `server`: the number of this server.
  // Serves the row buckets that this server owns. Keeps, but does not serve, the row buckets and
  // slices that are offered to this server. Removes the row buckets that other servers own.
  Status PlaceBuckets(const MoveState& moves, int server);
  // Adds a slice with its values, and marks all slices and tables as initialised. REQUIRES: no
  // slice has the same bucket or elements.
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
