// The dense slices of one shard: parameters, their update programs, and copies for readers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/threads/fork_join.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/buffer_pool.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/tables/cow_slice_snapshot.h"
#include "pserver/tables/gathered_gradients.h"
#include "pserver/tables/slice_index.h"
#include "pserver/tables/update_program.h"

namespace tandem::pserver {

// Stores and updates the dense slices of one shard. Not thread-safe (the shard's lock guards it).
// The returned buffers are shared and immutable, so any thread may read them.
class DenseTable {
 public:
  // Creates one update program for each slice. The values of the slices are in the memory of
  // `device`; all other data is in host memory. `backend`, `device` and `workers` must outlive the
  // table. `workers` null: only the calling thread works. `arena`: memory for the buffer pool.
  static StatusOr<std::unique_ptr<DenseTable>> Make(const ShardConfig& config,
                                                    const exec::Backend& backend, Device& device,
                                                    std::shared_ptr<Arena> arena = nullptr,
                                                    ForkJoin* workers = nullptr);

  size_t size() const { return slices_.size(); }
  const SliceSpec& spec(int slice) const { return At(slice).spec; }
  std::vector<SliceSpec> specs() const;
  size_t bytes(int slice) const;  // bytes of the parameters and optimizer slots of a slice
  const SliceIndex& index() const { return index_; }

  // ---- Slices that move -------------------------------------------------------------------------
  // Adds a slice at the end. The indices of the other slices stay. The bucket of a slice that can
  // move between servers is not 0. REQUIRES: no slice has the same elements, or the same bucket
  // other than 0.
  Status Add(const SliceSpec& spec);
  // Removes the slice of `bucket`; the indices of later slices decrease by 1. Returns the former
  // index of the slice; -1: the table has no such slice.
  int Remove(int bucket);
  // Sets whether the slice of `bucket` is served. Has no effect if the table has no such slice.
  void Keep(int bucket, bool served);
  bool Serves(int bucket) const;
  bool served(int slice) const { return At(slice).served; }
  // Returns copies of the slices whose buckets are in `moves`. `previous`: the copies include the
  // parameters before the last update. RESOURCE_EXHAUSTED: the slices exceed 1 GiB in total.
  StatusOr<std::vector<SliceMigration>> Migrations(std::span<const BucketMove> moves,
                                                   bool previous);

  // ---- Updates of a step (sync) -----------------------------------------------------------------
  // Runs the update program of every slice with the sum of the gradients of `ranks` (ascending).
  // REQUIRES: `ranks` is not empty, and `gradients` has a gradient of each slice from each rank.
  Status ApplyStep(const SliceGradients& gradients, std::span<const int> ranks,
                   float learning_rate);

  // ---- Immediate updates (a_sync) ---------------------------------------------------------------
  Status Apply(int slice, std::span<const float> gradient, float learning_rate);
  // Records `values` as the parameters that `trainer` pulled last. `values` is a result of Params,
  // and the table shares its ownership.
  void Pulled(int slice, int trainer, Buffer values);
  // Writes the gradient with delay compensation to `out`: gradient + strength * gradient^2 *
  // (parameters - pulled), where `pulled` are the values that `trainer` pulled last. Returns false
  // and writes nothing if `trainer` has not pulled yet.
  StatusOr<bool> Compensated(int slice, int trainer, float strength,
                             std::span<const float> gradient, float* out);

  // ---- Values -----------------------------------------------------------------------------------
  // INVALID_ARGUMENT: the number of values is wrong. NOT_FOUND: the slice has no such slot.
  Status SetParam(int slice, std::span<const float> values);
  Status SetSlot(int slice, const std::string& slot, std::span<const float> values);
  // Returns a copy of the current parameters. All calls between two changes return the same copy.
  StatusOr<Buffer> Params(int slice);
  // Returns the parameters before the last ApplyStep; null: ApplyStep was not called yet.
  Buffer Previous(int slice) const { return At(slice).previous; }
  void SetPrevious(int slice, Buffer values) { At(slice).previous = std::move(values); }
  // Returns a copy of the parameters, the optimizer slots and the parameters before the last
  // update.
  StatusOr<SliceSnapshot> Snapshot(int slice);
  // Begins a snapshot of all slices. The slices are copied one after another while they change.
  void BeginSnapshot() { snapshot_.Begin(slices_.size()); }
  CowSliceSnapshot& snapshot() { return snapshot_; }  // the snapshot that BeginSnapshot began

  BufferPool& pool() { return pool_; }

 private:
  struct Slice {
    SliceSpec spec;
    std::unique_ptr<UpdateProgram> update;
    Buffer params;    // copy of the parameters; null: they have changed since the last copy
    Buffer previous;  // parameters before the last ApplyStep
    // By trainer: the values that the trainer pulled last. Used with delay_compensation.
    std::vector<Buffer> pulled;
    bool served = true;
  };

  DenseTable(const ShardConfig& config, const exec::Backend& backend, Device& device,
             std::shared_ptr<Arena> arena, ForkJoin* workers);
  Slice& At(int slice) {
    TD_REQUIRE(slice >= 0 && static_cast<size_t>(slice) < slices_.size());
    return slices_[static_cast<size_t>(slice)];
  }
  const Slice& At(int slice) const { return const_cast<DenseTable*>(this)->At(slice); }
  Status Append(const SliceSpec& spec);
  Status ApplySlice(int slice, const SliceGradients& gradients, std::span<const int> ranks,
                    float learning_rate);
  int parts() const;                 // number of threads that update the slices of a step
  void Index();                      // updates index_; called after each change of slices_
  int FindBucket(int bucket) const;  // index of the slice with this bucket; -1: there is none
  // Returns a copy, in host memory, of a value of the program `update`.
  StatusOr<Buffer> CopyOf(const UpdateProgram& update, const Tensor& value);

  ForkJoin* const workers_;
  const exec::Backend& backend_;
  Device& device_;
  const graph::OptimizerSpec optimizer_;
  const size_t trainers_;
  BufferPool pool_;
  Buffer staged_;  // pinned host memory for the largest value; null: the values are in host memory
  int64_t staged_numel_ = 0;
  std::vector<Slice> slices_;
  SliceIndex index_;  // finds slices by their elements
  CowSliceSnapshot snapshot_;
};

}  // namespace tandem::pserver
