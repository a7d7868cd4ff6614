// The dense slices of one shard: parameters with their update programs, the gradients of the step
// that is being gathered, and snapshots for readers.
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

namespace tandem {

// Not thread-safe (the shard's lock guards it), but what it hands out is shared memory that never
// changes and may be read by any thread.
class DenseTable {
 public:
  // One update program per slice, whose values lie on `device`; everything else is host memory.
  // `backend`, `device` and `workers` (null: the calling thread alone) must outlive the table;
  // `arena`: of the pool.
  static StatusOr<std::unique_ptr<DenseTable>> Make(const ShardConfig& config,
                                                    const Backend& backend, Device& device,
                                                    std::shared_ptr<Arena> arena = nullptr,
                                                    ForkJoin* workers = nullptr);

  // ---- Slices that move (SliceSpec::bucket). Whoever has the number of a slice has another one
  // behind a change of these.
  // REQUIRES: no slice has the same bucket or elements.
  Status Add(const SliceSpec& spec);
  void Remove(int bucket);  // nothing when it is not here
  // From now on it is served, or is not. Nothing when it is not here.
  void Keep(int bucket, bool served);
  bool Serves(int bucket) const;
  bool served(int slice) const { return slices_[slice].served; }
  std::vector<SliceSpec> specs() const;
  size_t bytes(int slice) const;  // of parameters and slots

  size_t size() const { return slices_.size(); }
  const SliceSpec& spec(int slice) const { return slices_[slice].spec; }
  bool Holds(const std::string& variable) const { return by_variable_.contains(variable); }

  // The slice of `variable` that begins at `offset`. NOT_FOUND with the nearest name, or with the
  // offsets that there are.
  StatusOr<int> Find(const std::string& variable, int64_t offset) const;
  // The slice that holds all of [offset, offset + numel).
  StatusOr<int> FindRange(const PullRange& range) const;

  // ---- The step being gathered (sync) -----------------------------------------------------------
  bool Has(int slice, int trainer) const { return slices_[slice].gathered[trainer] != nullptr; }
  void Gather(int slice, int trainer, Buffer gradient);
  // How many slices `trainer` has given.
  int gathered(int trainer) const { return gathered_[trainer]; }
  // Forgets what `trainer` gave.
  void Drop(int trainer);
  // Adds what `ranks` gave (ascending) for every slice, runs the update programs and forgets the
  // gradients. REQUIRES: each rank gave every slice; at least one rank.
  Status ApplyGathered(std::span<const int> ranks, float learning_rate);

  // ---- At once (a_sync)
  // ---------------------------------------------------------------------------
  Status Apply(int slice, std::span<const float> gradient, float learning_rate);
  // What `trainer` pulled last of a slice: a Snapshot, which is kept.
  void Pulled(int slice, int trainer, Buffer values);
  // gradient + strength gradient^2 (parameters - what `trainer` pulled last) to `out`; false, and
  // nothing is written, when it pulled nothing yet.
  StatusOr<bool> Compensated(int slice, int trainer, float strength,
                             std::span<const float> gradient, float* out);

  // ---- Values
  // -------------------------------------------------------------------------------------
  // INVALID_ARGUMENT unless numel fits.
  Status SetParam(int slice, std::span<const float> values);
  Status SetSlot(int slice, const std::string& slot, std::span<const float> values);
  // The parameters now; copied once per change, however many ask.
  StatusOr<Buffer> Snapshot(int slice);
  // The parameters before the last ApplyGathered; null when there was none.
  Buffer Previous(int slice) const { return slices_[slice].previous; }
  void SetPrevious(int slice, Buffer values) { slices_[slice].previous = std::move(values); }
  // A copy of parameters and slots, with the parameters before.
  StatusOr<SliceSnapshot> Image(int slice);

  // ---- A cut: all values as they are at BeginSnapshot, copied slice by slice while others go on.
  // A slice that changes is copied right before.
  void BeginSnapshot();
  // Copies slice `slice` of those of then, unless that was done.
  Status Capture(int slice);
  // REQUIRES: every slice was captured since BeginSnapshot. RESOURCE_EXHAUSTED when one went that
  // could not be copied.
  StatusOr<std::vector<SliceSnapshot>> TakeCut();
  // Nobody needs it.
  void DropCut();

  BufferPool& pool() { return pool_; }

 private:
  struct Slice {
    SliceSpec spec;
    std::unique_ptr<UpdateProgram> update;
    std::vector<Buffer> gathered;  // by trainer; null: not there yet
    Buffer snapshot;               // null: the parameters changed since
    Buffer previous;               // of the step before
    bool cutting = false;          // not captured yet
    bool served = true;
    std::vector<Buffer> pulled = {};  // by trainer, with delay_compensation
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
  int parts() const;                 // threads among which a step's slices are worth sharing
  void Index();                      // behind a change of slices_
  Status CaptureAll();               // before one
  int FindBucket(int bucket) const;  // -1: none
  // A value of a slice's program.
  StatusOr<Buffer> CopyOf(const UpdateProgram& update, const Tensor& value);
  Status BeforeChange(int slice) { return slices_[slice].cutting ? Capture(slice) : OkStatus(); }

  ForkJoin* const workers_;
  const Backend& backend_;
  Device& device_;
  const OptimizerSpec optimizer_;
  BufferPool pool_;
  Buffer staged_;  // pinned, as large as the largest value; null where values lie in host memory
  int64_t staged_numel_ = 0;
  std::vector<Slice> slices_;
  std::vector<SliceSnapshot> cut_;                                 // as they were at BeginSnapshot
  std::vector<int> gathered_;                                      // by trainer
  std::unordered_map<std::string, std::vector<int>> by_variable_;  // ascending offsets
  std::vector<std::string> names_;                                 // for "did you mean"
};

}  // namespace tandem
