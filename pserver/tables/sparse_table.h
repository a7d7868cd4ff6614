// The rows of one table that a server owns. A row comes into being with its first gradient, from
// what FillInitial makes of its id, so that neither the order in which rows come nor the number of
// servers matters; before that it reads as the same. TableRules may admit rows later, until when
// they read as zeros, and remove them again.
//
// A row in memory: id, use, weights, optimizer slots (row_store.h), which its accessor may make of
// two lengths (row_accessor.h). With a bound on their memory
// those that are not in use lie outside (row_tiers.h), which changes no bit. Updates are the
// optimizer's operator (row_updater.h), of several parts of the rows at once.
#pragma once

#include <algorithm>
#include <bitset>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fork_join.h"
#include "common/tensor/row_buckets.h"
#include "kernels/exec/initial_values.h"
#include "pserver/state/shard_types.h"
#include "pserver/tables/cow_table_snapshot.h"
#include "pserver/tables/pull_lookup_cache.h"
#include "pserver/tables/row_accessor.h"
#include "pserver/tables/row_admission.h"
#include "pserver/tables/row_store.h"
#include "pserver/tables/row_tiers.h"
#include "pserver/tables/row_updater.h"

namespace tandem {

// Rows of one push: ascending ids, and for each its counts (RowAccessor::counts), then dim values.
struct RowsGradient {
  std::span<const uint64_t> ids;
  const float* values = nullptr;
};

// Not thread-safe.
class SparseTable {
 public:
  // `backend`, `device` and `workers` (null: the calling thread alone) must outlive the table.
  // UNIMPLEMENTED for optimizers that need norms of whole parameters, or that change rows that
  // never had a gradient.
  static StatusOr<std::unique_ptr<SparseTable>> Make(const TableSpec& spec,
                                                     const OptimizerSpec& optimizer,
                                                     const Backend& backend, Device& device,
                                                     ForkJoin* workers = nullptr);
  // Memory that it takes once every row is there that may be.
  double bytes_max(bool may_get_all = false) const;
  // From now on rows beyond `bytes` of memory go to `cold`, which must outlive the table. REQUIRES:
  // there are none yet. UNIMPLEMENTED for optimizers that change rows without a gradient, as in
  // Make for accessors with brief rows.
  Status Limit(ColdStore& cold, uint64_t bytes);

  const TableSpec& spec() const { return spec_; }
  size_t dim() const { return static_cast<size_t>(dim_); }
  size_t rows() const { return store_.size() + (tiers_ == nullptr ? 0 : tiers_->cold()); }
  size_t bytes() const { return store_.bytes(); }
  TableInfo Info() const;
  const std::vector<std::string>& slots() const { return updater_.slots(); }  // of the rows
  // Values of a row in a push.
  int64_t push_width() const { return accessor_.counts() + dim_; }
  // INVALID_ARGUMENT for counts that cannot be.
  Status CheckCounts(const RowsGradient& gradient) const;

  // INVALID_ARGUMENT naming the id: outside [0, height), not of a bucket of this server, or
  // (`ascending`) not above the one before it. Once buckets moved OUT_OF_RANGE for one that this
  // server does not serve.
  Status CheckIds(std::span<const uint64_t> ids, bool ascending) const;

  // ---- Buckets, of which those of the spec are kept and served at first.
  // From now on the bucket is kept, and its rows are given out and changed, or not.
  void Keep(int bucket, bool served);
  bool served(int bucket) const { return served_[static_cast<size_t>(bucket)]; }
  const std::bitset<kRowBuckets>& served_buckets() const { return served_; }
  // Forgets a bucket and its rows.
  Status DropBucket(int bucket);
  // Rows of buckets with their slots, and those that wait.
  StatusOr<RowValues> Rows(std::span<const int> buckets, uint64_t version) const;

  // ---- With rows outside memory each of these fails when they cannot be read: DATA_LOSS,
  // UNAVAILABLE.

  // Brings the rows of `ids` in, after making room: RESOURCE_EXHAUSTED when that fails. Apply with
  // these ids right behind it then does not fail for want of them or of room.
  Status Prepare(std::span<const uint64_t> ids);
  // Begins the update that makes `version` + 1: removes rows that the rules remove now. With
  // `keep_previous` Pull can give the weights before it.
  Status Begin(uint64_t version, bool keep_previous);
  // One optimizer step with the sum of the gradients, added in their order. REQUIRES:
  // CheckIds(ids, true) for each; once behind Begin.
  Status Apply(std::span<const RowsGradient> gradients, float learning_rate);
  // Weights of `ids` to `out` [ids, dim]; `previous`: before the last Begin. REQUIRES: CheckIds.
  Status Pull(std::span<const uint64_t> ids, bool previous, float* out);

  // Weights before the last Begin of what it removed and Apply changed; and as from Previous.
  RowValues Previous() const;
  RowValues Previous(std::span<const int> buckets) const;  // of rows in these
  void SetPrevious(const RowValues& rows);

  // Replaces or adds rows, each with its slots, as they are at `version`; all or nothing, but where
  // there is no room for them.
  Status SetRows(const RowValues& values, uint64_t version);
  // A slot of one number. NOT_FOUND with the nearest name.
  Status SetScalar(const std::string& slot, float value);
  const std::vector<std::pair<std::string, float>>& scalars() const { return updater_.scalars(); }
  // Rows of whole buckets from `bucket` on and before `end`, of those that are served, until there
  // are `bytes_max` bytes.
  StatusOr<TablePage> Page(int bucket, bool with_slots, uint64_t bytes_max, uint64_t version,
                           int end = kRowBuckets) const;
  // `since`: only rows that changed since this version, where those are not all.
  StatusOr<TableSnapshot> Image(uint64_t version, std::optional<uint64_t> since = {}) const;

  // ---- The same, copied bucket by bucket while others go on (cow_table_snapshot.h). One at a
  // time: another one takes its place.
  void BeginSnapshot(uint64_t version, std::optional<uint64_t> since = {});
  // Copies the bucket, unless that was done; gives its bytes.
  size_t Capture(int bucket);
  // REQUIRES: BeginSnapshot before, and then Capture of every bucket. Once.
  StatusOr<TableSnapshot> TakeCut();
  void DropCut() { cut_.reset(); }  // nobody needs it

 private:
  static constexpr size_t kPullGroup = 128;  // rows that are looked up, then copied
  // A row that a step has made.
  struct MadeRow {
    size_t position;     // among the ids of the step
    const float* fresh;  // its first values; null: they are to be drawn
  };
  // Does a part of the work: that with [begin, end) of what it is cut by.
  using PartWork = std::function<Status(int part, size_t begin, size_t end)>;

  SparseTable(TableSpec spec, UntouchedRowPolicy idle, RowUpdater updater, ForkJoin* workers)
      : spec_(std::move(spec)),
        idle_(idle),
        dim_(spec_.dim()),
        accessor_(spec_.rules, dim_),
        width_(updater.width(dim_)),
        brief_width_(accessor_.extends() ? updater.width(accessor_.columns_at_first()) : 0),
        store_(width_, brief_width_),
        fresh_(spec_.variable, spec_.init, spec_.shape, spec_.seed),
        admission_(spec_.rules, spec_.seed, spec_.variable),
        updater_(std::move(updater)),
        workers_(workers) {}
  // Cuts [0, range) into parts that are done at once, where `rows` rows are worth it.
  Status InParts(size_t rows, size_t range, const PartWork& work) const;
  Status InParts(size_t rows, const PartWork& work) const { return InParts(rows, rows, work); }
  // Adds the gradients up; the result lies in one of them, or in merged_.
  RowsGradient Merge(std::span<const RowsGradient> gradients);
  // Sets at_ to the places of `ids`; those that are missing are added, whatever the rules say, and
  // are in made_: their values are not set yet.
  Status Place(std::span<const uint64_t> ids);
  Status AddMade(std::span<const uint64_t> ids);  // to the store
  // The gradient of rows that are there or admitted now; the result lies in it, or in merged_.
  RowsGradient DropRefused(const RowsGradient& gradient);
  Status Shrink();
  // Makes rows of the step full that are so from now on.
  Status Extend(std::span<const uint64_t> ids);
  // A copy of whole lines of the cache, where rows are such, is a few moves instead of a call.
  static void CopyRow(const float* from, int64_t dim, float* to) {
    constexpr int64_t kLine = 16;  // floats
    if (dim % kLine != 0) return void(std::copy_n(from, dim, to));
    for (int64_t i = 0; i < dim; i += kLine) std::copy_n(from + i, kLine, to + i);
  }
  void CopyWeights(uint32_t at, float* out) const;
  // What the rows at these positions of `ids` read as, at most kPullGroup that are not there.
  void FillAbsent(std::span<const uint64_t> ids, std::span<const size_t> positions,
                  std::vector<float>& scratch, float* out) const;
  void Gather(std::span<const uint64_t> ids, float* out);
  // Keeps them by id, whatever becomes of the places of rows.
  void PinPrevious();
  void OverwritePrevious(std::span<const uint64_t> ids, float* out) const;
  // The first weights of a row, `columns` of them.
  void FillFirst(uint64_t id, int64_t columns, float* weights) const;
  Status UpdateTouched(std::span<const uint64_t> ids, const float* gradients, uint32_t made_from,
                       float rate);
  Status UpdateAll(std::span<const uint64_t> ids, const float* gradients, uint32_t made_from,
                   float rate);
  // Rows [begin, end) of the step: gives those that it made their first values, and counts.
  void Begin(std::span<const uint64_t> ids, const float* pushed, size_t begin, size_t end);
  // The weights of the row at `at` before the step, which makes rows from place `made_from` on.
  void KeepPrevious(uint32_t at, uint32_t made_from, float* out) const;
  Status CheckContent(const RowValues& values) const;
  Status CheckKept(std::span<const uint64_t> ids) const;
  Status AppendBucket(int bucket, bool with_slots, uint32_t version, RowValues& out,
                      const CowTableSnapshot* cut = nullptr) const;
  // sparse_table_cut.cc. Without a cut BeforeChange does nothing.
  CowTableSnapshot MakeCut(uint64_t version, std::optional<uint64_t> since) const;
  size_t Capture(CowTableSnapshot& cut, int bucket) const;
  // Of rows that are in memory, or that there are not.
  void BeforeChange(std::span<const uint64_t> ids);
  void BeforeChange(int bucket) {
    if (cut_ != nullptr) Capture(*cut_, bucket);
  }
  void BeforeChangeOfAll();

  const TableSpec spec_;
  std::bitset<kRowBuckets> kept_, served_;
  bool moved_ = false;  // buckets came or went
  const UntouchedRowPolicy idle_;
  const int64_t dim_;  // floats of the weights
  const RowAccessor accessor_;
  const int64_t width_, brief_width_;  // floats of a row, of a brief one; 0: there are none
  RowStore store_;
  const InitialValues fresh_;        // weights of a row's first gradient
  std::unique_ptr<RowTiers> tiers_;  // null: all rows are in store_
  RowAdmission admission_;
  uint32_t version_ = 0;
  uint64_t dropped_ = 0, removed_ = 0;
  RowUpdater updater_;
  ForkJoin* const workers_;
  PullLookupCache recent_;
  std::vector<uint32_t> at_;
  std::vector<MadeRow> made_;  // ascending
  std::vector<uint64_t> merged_ids_;
  std::vector<float> merged_;
  // Weights before the last step: of previous_ids_, or with UntouchedRowPolicy::kFade of all
  // places.
  bool keeps_previous_ = false;
  std::vector<uint64_t> previous_ids_;
  std::vector<float> previous_;
  std::unique_ptr<CowTableSnapshot> cut_;                    // null: there is none
  std::map<uint64_t, std::vector<float>> previous_removed_;  // weights of rows that are gone,
                                                             // or as SetPrevious had them
};

}  // namespace tandem
