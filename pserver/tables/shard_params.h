// The parameters of one shard: its dense slices and its tables of rows, and whatever concerns
// both: first values, what a push brings, the step that is gathered, buckets, a copy of all.
//
// One index names either: tables count on behind the slices, so slices().size() + i is table i. A
// slice has another index behind a change of what is here.
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

namespace tandem {

// Not thread-safe (the shard's lock guards it), but what it hands out is shared memory that never
// changes and may be read by any thread.
class ShardParams {
 public:
  // Where values lie, and what works on them, all of which must outlive the parameters.
  struct Place {
    const Backend& slice_backend;
    Device& slice_device;
    const Backend& row_backend;
    Device& row_device;
    std::shared_ptr<Arena> arena;  // of what is given out; null, or full: elsewhere
    TableMemory table_memory;
    ForkJoin* workers = nullptr;  // null: the calling thread alone
  };
  // With memory for values, of which none are there yet.
  static StatusOr<std::unique_ptr<ShardParams>> Make(const ShardConfig& config, const Place& place);

  DenseTable& slices() { return *slices_; }
  const DenseTable& slices() const { return *slices_; }
  SparseTables& tables() { return *tables_; }
  const SparseTables& tables() const { return *tables_; }
  bool IsTable(int index) const { return index >= static_cast<int>(slices_->size()); }

  // ---- First values
  bool whole() const { return missing_ == 0; }
  size_t given() const { return given_.size() - missing_; }  // slices and tables with their values
  size_t size() const { return given_.size(); }              // of all
  // Sets values, and counts them as given where all could be set. INVALID_ARGUMENT, NOT_FOUND.
  Status Init(uint64_t version, const std::vector<SliceValues>& params,
              const std::vector<SlotValues>& slots, const std::vector<RowValues>& rows);
  // Which ones are given, by index; and as it was before.
  const std::vector<bool>& which_given() const { return given_; }
  void SetGiven(std::vector<bool> given);
  void SetAllGiven() { SetGiven(std::vector<bool>(slices_->size() + tables_->size(), true)); }

  // ---- Pushes
  // The slice that holds `range` and is served. OUT_OF_RANGE when, as `moves` has it, that is
  // another server's, or may be.
  StatusOr<int> FindRange(const PullRange& range, const MoveState& moves) const;
  // PushTicket::slices of this push. INVALID_ARGUMENT when a part does not fit, or comes twice: in
  // the message or (sync) in the step.
  StatusOr<std::vector<int>> FindPush(const PushHead& head, const MoveState& moves) const;
  // Brings the rows of the push in, if their ids and counts can be (SparseTable::Prepare).
  Status PrepareRows(const PushHead& head, const PushTicket& ticket);
  // Updates at once (a_sync), from `version` to the next.
  Status Apply(const PushHead& head, const PushTicket& ticket, uint64_t version);

  // ---- The step being gathered (sync)
  // Whether the push brings all that a step needs of a trainer.
  bool IsWholeStep(const PushHead& head) const;
  void Gather(const PushHead& head, PushTicket& ticket);
  bool GaveAll(int trainer) const;
  // Variables and tables of which the trainer gave nothing, or not all.
  std::vector<std::string> Lacks(int trainer) const;
  bool GaveNothing(int trainer) const;
  bool NothingGathered() const;  // of all trainers
  void DropGathered(int trainer);
  // Updates with what `ranks` gave (ascending, at least one), from `version` to the next. REQUIRES:
  // GaveAll of each.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate, uint64_t version);

  // ---- Pulls
  // NOT_FOUND, INVALID_ARGUMENT; OUT_OF_RANGE for rows that are not served.
  Status CheckRows(const PullRows& rows) const;
  // REQUIRES: CheckRows. `previous`: before the last update.
  StatusOr<PulledSlice> Rows(const PullRows& rows, bool previous);
  // Optimizer slots of `variables` (empty: all) but of what is offered to this server.
  StatusOr<std::vector<SlotValues>> Slots(const std::vector<std::string>& variables,
                                          const MoveState& moves);

  // ---- Buckets
  bool Serves(int bucket) const;
  bool ServesRows() const;
  bool ServesAny() const { return slices_->size() != 0 || ServesRows(); }
  void Keep(int bucket, bool served);
  // Forgets a bucket and what is in it.
  Status Drop(int bucket);
  // Keeps, serves and forgets buckets as server `server` does behind `moves`.
  Status PlaceBuckets(const MoveState& moves, int server);
  // Slices that are among `moves`. RESOURCE_EXHAUSTED when they do not go into one parcel.
  StatusOr<std::vector<SliceMigration>> SlicesOf(std::span<const BucketMove> moves, bool previous);
  // REQUIRES: no slice has the same bucket or elements.
  Status Add(const SliceMigration& slice);
  Status SetScalars(std::span<const BucketMigration::Scalar> scalars);
  // Weights of rows before the last update. Nothing is changed when they do not fit.
  Status SetPreviousRows(std::span<const RowValues> rows);

  // ---- A copy of everything, into an image
  Status Copy(ShardSnapshot& image);
  // Rows before the last update alone.
  void CopyPreviousRows(ShardSnapshot& image) const;
  // The same as Copy, while others go on: the values of BeginSnapshot, copied some at a time. What
  // is about to change is copied right before.
  struct CutPlace {  // up to where
    size_t slice = 0, table = 0;
    int bucket = 0;
  };
  void BeginSnapshot(const ShardSnapshot& image);
  // Copies about `bytes` more; true when there is no more.
  StatusOr<bool> CopyChunk(const ShardSnapshot& image, size_t bytes, CutPlace& place);
  Status TakeCut(ShardSnapshot& image);
  void DropCut();  // nobody needs it

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
  size_t missing_ = 0;       // of them
};

}  // namespace tandem
