// The dense slices of one shard: parameters with their update programs, gradients of the step that
// is being gathered, and snapshots for readers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/fork_join.h"
#include "pserver/state/buffer_pool.h"
#include "pserver/state/shard_types.h"
#include "pserver/tables/update_program.h"

namespace tandem::pserver {

// Stores and updates the dense slices of one shard. Not thread-safe (the shard's lock guards it).
// The buffers it returns are shared and immutable, so any thread may read them.
class DenseTable {
 public:
  // Creates one update program per slice. The values of the slices are in the memory of `device`;
  // all other data is in host memory. `backend`, `device` and `workers` must outlive the table. A
  // null `workers` means that only the calling thread works. `arena`: memory for the buffer pool.
  static StatusOr<std::unique_ptr<DenseTable>> Make(const ShardConfig& config,
                                                    const Backend& backend, Device& device,
                                                    std::shared_ptr<Arena> arena = nullptr,
                                                    ForkJoin* workers = nullptr);

  // ---- Slices that move -------------------------------------------------------------------------
  // Add and Remove change the indices of slices (SliceSpec::bucket names a slice that moves).
  // REQUIRES: no slice has the same bucket or elements.
  Status Add(const SliceSpec& spec);
  void Remove(int bucket);  // no effect if the bucket is not here
  // Sets whether the slice of `bucket` is served. Has no effect if the bucket is not here.
  void Keep(int bucket, bool served);
  bool Serves(int bucket) const;
  bool served(int slice) const { return slices_[slice].served; }
  std::vector<SliceSpec> specs() const;
  size_t bytes(int slice) const;  // of parameters and optimizer slots

  size_t size() const { return slices_.size(); }
  const SliceSpec& spec(int slice) const { return slices_[slice].spec; }
  bool Holds(const std::string& variable) const { return by_variable_.contains(variable); }

  // Returns the slice of `variable` that begins at `offset`. NOT_FOUND: unknown variable (with the
  // nearest name), or no slice begins there (with the existing offsets).
  StatusOr<int> Find(const std::string& variable, int64_t offset) const;
  // Returns the slice that contains all of [offset, offset + numel).
  StatusOr<int> FindRange(const PullRange& range) const;

  // ---- The step being gathered (sync) -----------------------------------------------------------
  bool Has(int slice, int trainer) const { return slices_[slice].gathered[trainer] != nullptr; }
  void Gather(int slice, int trainer, Buffer gradient);
  // Number of slices for which `trainer` has sent its gradient.
  int gathered(int trainer) const { return gathered_[trainer]; }
  // Drops the gathered gradients of `trainer`.
  void Drop(int trainer);
  // For every slice: sums the gradients of `ranks` (ascending), runs the update program and drops
  // the gradients. REQUIRES: `ranks` is not empty and each rank has sent every slice.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate);

  // ---- Immediate updates (a_sync) ---------------------------------------------------------------
  Status Apply(int slice, std::span<const float> gradient, float learning_rate);
  // Records the values that `trainer` pulled last. `values`: a result of Snapshot, which the table
  // keeps.
  void Pulled(int slice, int trainer, Buffer values);
  // Writes gradient + strength * gradient^2 * (parameters - values that `trainer` pulled last) to
  // `out`. Returns false and writes nothing if `trainer` has not pulled yet.
  StatusOr<bool> Compensated(int slice, int trainer, float strength,
                             std::span<const float> gradient, float* out);

  // ---- Values -----------------------------------------------------------------------------------
  // INVALID_ARGUMENT: wrong number of values.
  Status SetParam(int slice, std::span<const float> values);
  Status SetSlot(int slice, const std::string& slot, std::span<const float> values);
  // The current parameters. They are copied at most once per change.
  StatusOr<Buffer> Snapshot(int slice);
  // The parameters before the last ApplyGathered; null: there was no update.
  Buffer Previous(int slice) const { return slices_[slice].previous; }
  void SetPrevious(int slice, Buffer values) { slices_[slice].previous = std::move(values); }
  // A copy of the parameters, the optimizer slots and the previous parameters.
  StatusOr<SliceSnapshot> Image(int slice);

  // ---- Copy-on-write snapshot -------------------------------------------------------------------
  // The snapshot has all values as they are at BeginSnapshot. It is copied slice by slice while the
  // slices change. A slice is copied before it changes.
  void BeginSnapshot();
  // Copies slice `slice` as of BeginSnapshot. Does nothing if the slice is already copied.
  Status Capture(int slice);
  // Returns the snapshot. REQUIRES: every slice was captured since BeginSnapshot.
  // RESOURCE_EXHAUSTED: a slice was removed and there was no memory to copy it.
  StatusOr<std::vector<SliceSnapshot>> TakeCut();
  // Abandons the snapshot.
  void DropCut();

  BufferPool& pool() { return pool_; }

 private:
  struct Slice {
    SliceSpec spec;
    std::unique_ptr<UpdateProgram> update;
    std::vector<Buffer> gathered;  // by trainer; null: not received yet
    Buffer snapshot;               // null: the parameters have changed since the last copy
    Buffer previous;               // parameters before the last update
    bool cutting = false;          // not captured yet by the snapshot in progress
    bool served = true;
    std::vector<Buffer> pulled = {};  // by trainer; used with delay_compensation
  };

  DenseTable(const ShardConfig& config, const Backend& backend, Device& device,
             std::shared_ptr<Arena> arena, ForkJoin* workers)
      : workers_(workers),
        backend_(backend),
        device_(device),
        optimizer_(config.optimizer),
        pool_(0, std::move(arena)),
        gathered_(static_cast<size_t>(config.trainers), 0) {}
  Status Append(const SliceSpec& spec);
  Status ApplyGathered(Slice& slice, std::span<const int> ranks, float learning_rate);
  int parts() const;                 // number of threads that pays off for the slices of a step
  void Index();                      // call after a change of slices_
  Status CaptureAll();               // call before a change of slices_
  int FindBucket(int bucket) const;  // -1: none
  // Copies a value of a slice's program.
  StatusOr<Buffer> CopyOf(const UpdateProgram& update, const Tensor& value);
  Status BeforeChange(int slice) { return slices_[slice].cutting ? Capture(slice) : OkStatus(); }

  ForkJoin* const workers_;
  const Backend& backend_;
  Device& device_;
  const OptimizerSpec optimizer_;
  BufferPool pool_;
  Buffer staged_;  // pinned, as large as the largest value; null: values are in host memory
  int64_t staged_numel_ = 0;
  std::vector<Slice> slices_;
  std::vector<SliceSnapshot> cut_;                                 // values as of BeginSnapshot
  std::vector<int> gathered_;                                      // by trainer
  std::unordered_map<std::string, std::vector<int>> by_variable_;  // ascending offsets
  std::vector<std::string> names_;                                 // for "did you mean"
};

}  // namespace tandem::pserver
