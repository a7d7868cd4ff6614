// The rows of one table that a server owns. The first gradient of a row creates it with the initial
// values that FillInitial derives from its id. The values therefore depend neither on the order of
// creation nor on the number of servers. An absent row reads as its initial values. TableRules may
// admit rows later (they read as zeros until then) and may remove rows.
//
// A row in memory has an id, use data, weights and optimizer slots (row_store.h).
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
#include "common/tables/row_buckets.h"
#include "kernels/exec/initial_values.h"
#include "pserver/state/shard_types.h"
#include "pserver/tables/cow_table_snapshot.h"
#include "pserver/tables/pull_lookup_cache.h"
#include "pserver/tables/row_accessor.h"
#include "pserver/tables/row_admission.h"
#include "pserver/tables/row_store.h"
#include "pserver/tables/row_tiers.h"
#include "pserver/tables/row_updater.h"

namespace tandem::pserver {

// Rows of one push: ascending ids. Each row has its counts (RowAccessor::counts), then dim values.
struct RowsGradient {
  std::span<const uint64_t> ids;
  const float* values = nullptr;
};

// One table of rows with its optimizer and rules. Not thread-safe.
class SparseTable {
 public:
  // `backend`, `device` and `workers` must outlive the table. A null `workers` means that only the
  // calling thread works. UNIMPLEMENTED: the optimizer needs norms of whole parameters, or changes
  // rows that never had a gradient.
  static StatusOr<std::unique_ptr<SparseTable>> Make(const TableSpec& spec,
                                                     const OptimizerSpec& optimizer,
                                                     const Backend& backend, Device& device,
                                                     ForkJoin* workers = nullptr);
  // Bytes of memory if every possible row exists.
  double bytes_max(bool may_get_all = false) const;
  // Moves rows to `cold` if their memory exceeds `bytes`. `cold` must outlive the table. REQUIRES:
  // the table is empty. UNIMPLEMENTED: the optimizer changes rows without a gradient (Make has the
  // same error for accessors with brief rows).
  Status Limit(ColdStore& cold, uint64_t bytes);

  const TableSpec& spec() const { return spec_; }
  size_t dim() const { return static_cast<size_t>(dim_); }
  size_t rows() const { return store_.size() + (tiers_ == nullptr ? 0 : tiers_->cold()); }
  size_t bytes() const { return store_.bytes(); }
  TableInfo Info() const;
  const std::vector<std::string>& slots() const { return updater_.slots(); }  // of rows
  // Numbers per row in a push.
  int64_t push_width() const { return accessor_.counts() + dim_; }
  // INVALID_ARGUMENT: impossible counts.
  Status CheckCounts(const RowsGradient& gradient) const;

  // INVALID_ARGUMENT: an id is outside [0, height), not in a bucket of this server, or
  // (`ascending`) not above its predecessor; the message names the id. OUT_OF_RANGE: after a move
  // of buckets, this server does not serve the id.
  Status CheckIds(std::span<const uint64_t> ids, bool ascending) const;

  // ---- Buckets ----------------------------------------------------------------------------------
  // At first, the buckets of the spec are kept and served. Keep adds a bucket and sets whether its
  // rows are read and updated here.
  void Keep(int bucket, bool served);
  bool served(int bucket) const { return served_[static_cast<size_t>(bucket)]; }
  const std::bitset<kRowBuckets>& served_buckets() const { return served_; }
  // Removes a bucket with its rows.
  Status DropBucket(int bucket);
  // The rows of `buckets` with their slots, and their waiting rows.
  StatusOr<RowValues> Rows(std::span<const int> buckets, uint64_t version) const;

  // ---- Rows -------------------------------------------------------------------------------------
  // With rows outside memory, each function fails if they cannot be read: DATA_LOSS, UNAVAILABLE.

  // Makes room, then fetches the rows of `ids` into memory. An Apply with these ids directly after
  // it does not fail for missing rows or room. RESOURCE_EXHAUSTED: no room.
  Status Prepare(std::span<const uint64_t> ids);
  // Begins the update from `version` to `version` + 1 and removes the rows that the rules remove
  // now. With `keep_previous`, Pull can return the weights before this update.
  Status Begin(uint64_t version, bool keep_previous);
  // One optimizer step with the sum of the gradients, added in the given order. REQUIRES:
  // CheckIds(ids, true) for each gradient; call once after Begin.
  Status Apply(std::span<const RowsGradient> gradients, float learning_rate);
  // Writes the weights of `ids` to `out` [ids, dim]. `previous`: weights before the last Begin.
  // REQUIRES: CheckIds.
  Status Pull(std::span<const uint64_t> ids, bool previous, float* out);

  // Previous returns the weights before the last Begin, for rows that Begin removed or Apply
  // changed. SetPrevious restores them.
  RowValues Previous() const;
  RowValues Previous(std::span<const int> buckets) const;  // only rows of these buckets
  void SetPrevious(const RowValues& rows);

  // Replaces or adds rows with their slots, as they are at `version`. On an error no row changes,
  // except if there is no room.
  Status SetRows(const RowValues& values, uint64_t version);
  // Sets a slot of one number. NOT_FOUND: unknown slot (the message has the nearest name).
  Status SetScalar(const std::string& slot, float value);
  const std::vector<std::pair<std::string, float>>& scalars() const { return updater_.scalars(); }
  // Rows of whole served buckets in [bucket, end), up to about `bytes_max` bytes.
  StatusOr<TablePage> Page(int bucket, bool with_slots, uint64_t bytes_max, uint64_t version,
                           int end = kRowBuckets) const;
  // `since`: only rows that changed since this version; not set: all rows.
  StatusOr<TableSnapshot> Image(uint64_t version, std::optional<uint64_t> since = {}) const;

  // ---- Copy-on-write snapshot (cow_table_snapshot.h) --------------------------------------------
  // Copied bucket by bucket while the table changes. A new snapshot replaces the one in progress.
  void BeginSnapshot(uint64_t version, std::optional<uint64_t> since = {});
  // Copies the bucket if it is not copied yet; returns its bytes.
  size_t Capture(int bucket);
  // REQUIRES: BeginSnapshot, then Capture of every bucket. Call once.
  StatusOr<TableSnapshot> TakeCut();
  void DropCut() { cut_.reset(); }  // abandons the snapshot

 private:
  static constexpr size_t kPullGroup = 128;  // rows looked up together, then copied
  // A row that a step creates.
  struct MadeRow {
    size_t position;     // in the ids of the step
    const float* fresh;  // initial values; null: they must be generated
  };
  // Does one part of the work: the range [begin, end) of the divided range.
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
  // Divides [0, range) into parts and runs them in parallel if `rows` rows are worth it.
  Status InParts(size_t rows, size_t range, const PartWork& work) const;
  Status InParts(size_t rows, const PartWork& work) const { return InParts(rows, rows, work); }
  // Sums the gradients. The result is one of them, or in merged_.
  RowsGradient Merge(std::span<const RowsGradient> gradients);
  // Sets at_ to the indices of `ids`. Adds absent rows without checking the rules and lists them in
  // made_; their values are not set yet.
  Status Place(std::span<const uint64_t> ids);
  Status AddMade(std::span<const uint64_t> ids);  // adds made_ to the store
  // The part of the gradient for rows that exist or are admitted now. The result is `gradient` or
  // in merged_.
  RowsGradient DropRefused(const RowsGradient& gradient);
  Status Shrink();
  // Extends the brief rows of the step that reach the threshold.
  Status Extend(std::span<const uint64_t> ids);
  // Copies a row. Rows of whole cache lines are copied with a few moves instead of a call.
  static void CopyRow(const float* from, int64_t dim, float* to) {
    constexpr int64_t kLine = 16;  // floats
    if (dim % kLine != 0) return void(std::copy_n(from, dim, to));
    for (int64_t i = 0; i < dim; i += kLine) std::copy_n(from + i, kLine, to + i);
  }
  void CopyWeights(uint32_t at, float* out) const;
  // Writes the values that absent rows read as. `positions` in `ids`: at most kPullGroup.
  void FillAbsent(std::span<const uint64_t> ids, std::span<const size_t> positions,
                  std::vector<float>& scratch, float* out) const;
  void Gather(std::span<const uint64_t> ids, float* out);
  // Keeps the previous weights by id, so that they stay valid when rows move.
  void PinPrevious();
  void OverwritePrevious(std::span<const uint64_t> ids, float* out) const;
  // Writes the first `columns` initial weights of a row.
  void FillFirst(uint64_t id, int64_t columns, float* weights) const;
  Status UpdateTouched(std::span<const uint64_t> ids, const float* gradients, uint32_t made_from,
                       float rate);
  Status UpdateAll(std::span<const uint64_t> ids, const float* gradients, uint32_t made_from,
                   float rate);
  // Initialises the new rows among rows [begin, end) of the step, and adds the counts of all.
  void Begin(std::span<const uint64_t> ids, const float* pushed, size_t begin, size_t end);
  // Writes the weights of the row at index `at` before the step. The step creates rows from index
  // `made_from`.
  void KeepPrevious(uint32_t at, uint32_t made_from, float* out) const;
  Status CheckContent(const RowValues& values) const;
  Status CheckKept(std::span<const uint64_t> ids) const;
  Status AppendBucket(int bucket, bool with_slots, uint32_t version, RowValues& out,
                      const CowTableSnapshot* cut = nullptr) const;
  // In sparse_table_cut.cc. BeforeChange does nothing without a snapshot in progress.
  CowTableSnapshot MakeCut(uint64_t version, std::optional<uint64_t> since) const;
  size_t Capture(CowTableSnapshot& cut, int bucket) const;
  // REQUIRES: each row is in memory or does not exist.
  void BeforeChange(std::span<const uint64_t> ids);
  void BeforeChange(int bucket) {
    if (cut_ != nullptr) Capture(*cut_, bucket);
  }
  void BeforeChangeOfAll();

  const TableSpec spec_;
  std::bitset<kRowBuckets> kept_, served_;
  bool moved_ = false;  // buckets were added or removed
  const UntouchedRowPolicy idle_;
  const int64_t dim_;  // floats of the weights
  const RowAccessor accessor_;
  // Floats of a full row, of a brief row; brief_width_ 0: no brief rows.
  const int64_t width_, brief_width_;
  RowStore store_;
  const InitialValues fresh_;        // initial weights of rows
  std::unique_ptr<RowTiers> tiers_;  // null: all rows are in store_
  RowAdmission admission_;
  uint32_t version_ = 0;
  uint64_t dropped_ = 0, removed_ = 0;
  RowUpdater updater_;
  ForkJoin* const workers_;
  PullLookupCache recent_;
  std::vector<uint32_t> at_;
  std::vector<MadeRow> made_;  // ascending positions
  std::vector<uint64_t> merged_ids_;
  std::vector<float> merged_;
  // Weights before the last step: of previous_ids_, or of all indices with
  // UntouchedRowPolicy::kFade.
  bool keeps_previous_ = false;
  std::vector<uint64_t> previous_ids_;
  std::vector<float> previous_;
  std::unique_ptr<CowTableSnapshot> cut_;  // null: no snapshot in progress
  // Weights of removed rows, or set by SetPrevious.
  std::map<uint64_t, std::vector<float>> previous_removed_;
};

}  // namespace tandem::pserver
