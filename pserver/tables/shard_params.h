// The parameters of one shard: dense slices and tables of rows. It implements the operations that
// concern both: initial values, pushes, the step being gathered, buckets, snapshots.
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
#include "pserver/state/shard_types.h"
#include "pserver/tables/dense_table.h"
#include "pserver/tables/sparse_tables.h"

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
  bool whole() const { return missing_ == 0; }
  // Slices and tables that have their values.
  size_t given() const { return given_.size() - missing_; }
  size_t size() const { return given_.size(); }  // slices and tables in total
  // Sets initial values. Marks slices and tables as set only if all values could be set.
  // INVALID_ARGUMENT: a value does not fit or is not finite. NOT_FOUND: unknown variable.
  Status Init(uint64_t version, const std::vector<SliceValues>& params,
              const std::vector<SlotValues>& slots, const std::vector<RowValues>& rows);
  // By index: whether the initial values are set. SetGiven restores an earlier state.
  const std::vector<bool>& which_given() const { return given_; }
  void SetGiven(std::vector<bool> given);
  void SetAllGiven() { SetGiven(std::vector<bool>(slices_->size() + tables_->size(), true)); }

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
  // Whether the push contains all gradients that a step needs from a trainer.
  bool IsWholeStep(const PushHead& head) const;
  void Gather(const PushHead& head, PushTicket& ticket);
  bool GaveAll(int trainer) const;
  // Variables and tables for which gradients of the trainer are missing.
  std::vector<std::string> Lacks(int trainer) const;
  bool GaveNothing(int trainer) const;
  bool NothingGathered() const;  // of any trainer
  void DropGathered(int trainer);
  // Applies the gathered gradients of `ranks` (ascending, at least one), from `version` to the next
  // version. REQUIRES: GaveAll for each rank.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate, uint64_t version);

  // ---- Pulls ------------------------------------------------------------------------------------
  // NOT_FOUND: unknown table. INVALID_ARGUMENT: invalid ids, or too many rows. OUT_OF_RANGE: a row
  // is not served here.
  Status CheckRows(const PullRows& rows) const;
  // REQUIRES: CheckRows returned OK. `previous`: values before the last update.
  StatusOr<PulledSlice> Rows(const PullRows& rows, bool previous);
  // Optimizer slots of `variables` (empty: all), without slices that are only offered to this
  // server.
  StatusOr<std::vector<SlotValues>> Slots(const std::vector<std::string>& variables,
                                          const MoveState& moves);

  // ---- Buckets (row buckets, and slices that move) ----------------------------------------------
  bool Serves(int bucket) const;
  bool ServesRows() const;
  bool ServesAny() const { return slices_->size() != 0 || ServesRows(); }
  void Keep(int bucket, bool served);
  // Removes a bucket with its contents.
  Status Drop(int bucket);
  // Keeps, serves or removes each bucket according to the ownership of server `server` in `moves`.
  Status PlaceBuckets(const MoveState& moves, int server);
  // The slices that are named in `moves`. RESOURCE_EXHAUSTED: they do not fit into one message.
  StatusOr<std::vector<SliceMigration>> SlicesOf(std::span<const BucketMove> moves, bool previous);
  // REQUIRES: no slice has the same bucket or elements.
  Status Add(const SliceMigration& slice);
  Status SetScalars(std::span<const BucketMigration::Scalar> scalars);
  // Sets the weights of rows before the last update. On an error, nothing changes.
  Status SetPreviousRows(std::span<const RowValues> rows);

  // ---- Snapshots --------------------------------------------------------------------------------
  // Copies all values into `image`.
  Status Copy(ShardSnapshot& image);
  // Copies only the rows from before the last update.
  void CopyPreviousRows(ShardSnapshot& image) const;
  // The copy-on-write form of Copy: the values as of BeginSnapshot, copied in chunks while
  // parameters change. Values are copied before they change.
  struct CutPlace {  // position of the next chunk
    size_t slice = 0, table = 0;
    int bucket = 0;
  };
  void BeginSnapshot(const ShardSnapshot& image);
  // Copies about `bytes` more. Returns true if the snapshot is complete.
  StatusOr<bool> CopyChunk(const ShardSnapshot& image, size_t bytes, CutPlace& place);
  Status TakeCut(ShardSnapshot& image);
  void DropCut();  // abandons the snapshot

 private:
  ShardParams(const ShardConfig& config, std::unique_ptr<DenseTable> slices,
              std::unique_ptr<SparseTables> tables);
  int TableOf(int index) const { return index - static_cast<int>(slices_->size()); }
  StatusOr<int> FindTablePush(const PushHead& head, size_t i) const;
  bool TakesTwice(int index, int trainer) const;
  Status InitSlot(const SlotValues& slot);
  Status InitRows(const RowValues& rows, uint64_t version);

  const bool sync_;
  const int trainers_;
  std::unique_ptr<DenseTable> slices_;
  std::unique_ptr<SparseTables> tables_;
  std::vector<bool> given_;  // by index
  size_t missing_ = 0;       // number of false entries in given_
};

}  // namespace tandem::pserver
