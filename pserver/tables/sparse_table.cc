#include "pserver/tables/sparse_table.h"

#include "common/base/nearest.h"
#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {
namespace {

constexpr size_t kAhead = 16;  // number of rows that are prefetched before they are used

Status CheckOptimizer(const TableSpec& spec, const graph::OptimizerSpec& optimizer) {
  TD_ASSIGN_OR_RETURN(const graph::UpdateScope reach, graph::ReachOf(optimizer));
  if (reach != graph::UpdateScope::kElement) {
    return Unimplemented(
        "optimizer %s with these settings needs norms of complete parameters, which tables do not "
        "support [TD1203]",
        optimizer.type);
  }
  TD_ASSIGN_OR_RETURN(const graph::UntouchedRowPolicy idle,
                      graph::IdleRowsOf(optimizer, spec.variable));
  if (idle == graph::UntouchedRowPolicy::kMove) {
    return Unimplemented(
        "optimizer %s also changes rows that never had a gradient, which tables do not support "
        "[TD1203]; hint: set optimizer.lazy_mode",
        optimizer.type);
  }
  if (idle == graph::UntouchedRowPolicy::kFade && RowAccessor(spec.rules, spec.dim()).extends()) {
    return Unimplemented(
        "optimizer %s also changes rows without a gradient, which accessor=%s does not support "
        "[TD1203]; hint: set optimizer.lazy_mode",
        optimizer.type, Name(spec.rules.accessor));
  }
  return OkStatus();
}

// Returns the number of floats of a brief row; 0: the table has no brief rows.
int64_t BriefWidth(const TableSpec& spec, const RowUpdater& updater) {
  const RowAccessor accessor(spec.rules, spec.dim());
  return accessor.extends() ? updater.width(accessor.columns_at_first()) : 0;
}

}  // namespace

StatusOr<std::unique_ptr<SparseTable>> SparseTable::Make(const TableSpec& spec,
                                                         const graph::OptimizerSpec& optimizer,
                                                         const exec::Backend& backend,
                                                         Device& device, ForkJoin* workers,
                                                         size_t changed_rows_max) {
  TD_RETURN_IF_ERROR(CheckOptimizer(spec, optimizer));
  TD_ASSIGN_OR_RETURN(const graph::UntouchedRowPolicy idle,
                      graph::IdleRowsOf(optimizer, spec.variable));
  TD_ASSIGN_OR_RETURN(RowUpdater updater,
                      RowUpdater::Make(spec, optimizer, backend, device,
                                       workers == nullptr ? 1 : workers->threads()));
  return std::unique_ptr<SparseTable>(
      new SparseTable(spec, idle, std::move(updater), workers, changed_rows_max));
}

SparseTable::SparseTable(const TableSpec& spec, graph::UntouchedRowPolicy idle, RowUpdater updater,
                         ForkJoin* workers, size_t changed_rows_max)
    : spec_(spec),
      buckets_(spec),
      idle_(idle),
      dim_(spec.dim()),
      rows_(spec, updater.width(dim_), BriefWidth(spec, updater)),
      schedule_(spec.rules),
      updater_(std::move(updater)),
      parts_(workers),
      reader_(spec, rows_, parts_),
      merger_(push_width()),
      previous_(dim_, rows_.store()),
      changed_(idle == graph::UntouchedRowPolicy::kStay ? changed_rows_max : 0),
      snapshot_(rows_) {}

double SparseTable::bytes_max(bool may_get_all) const {
  // With kFade, the memory cannot be limited (Limit returns an error). The result then counts only
  // the buckets in the spec.
  const bool all = may_get_all && idle_ != graph::UntouchedRowPolicy::kFade;
  const double buckets = all ? kRowBuckets : spec_.bucket_end - spec_.bucket_begin;
  const double rows = static_cast<double>(spec_.height()) * buckets / kRowBuckets;
  return rows * static_cast<double>(RowMemoryBytes(rows_.width(/*brief=*/false)));
}

Status SparseTable::Limit(ColdStore& cold, uint64_t bytes) {
  if (idle_ == graph::UntouchedRowPolicy::kFade) {
    return Unimplemented(
        "the optimizer also changes rows without a gradient, so all rows of table %s must fit into "
        "memory [TD1203]; hint: set optimizer.lazy_mode, or set table_memory_mb to at least %.1f",
        spec_.variable, bytes_max() / 1e6);
  }
  rows_.Limit(cold, bytes);
  // Uses one thread, because the marks of RowTiers do not support several threads.
  parts_ = RowParts(nullptr);
  return OkStatus();
}

TableInfo SparseTable::Info() const {
  TableInfo info = rows_.Info();
  info.dropped = dropped_;
  info.removed = removed_;
  return info;
}

// ---- Buckets

Status SparseTable::DropBucket(int bucket) {
  snapshot_.BeforeChange(bucket);
  previous_.Pin();
  buckets_.Drop(bucket);
  return rows_.DropBucket(bucket);
}

StatusOr<RowValues> SparseTable::Rows(std::span<const int> buckets, uint64_t version) const {
  RowValues rows{.variable = spec_.variable};
  for (const int bucket : buckets) {
    TD_RETURN_IF_ERROR(
        rows_.AppendBucket(bucket, {.version = static_cast<uint32_t>(version)}, rows));
  }
  return rows;
}

// ---- Snapshots

void SparseTable::BeginCopy(CowTableSnapshot& copy, uint64_t version,
                            std::optional<uint64_t> since) const {
  TD_REQUIRE(!since.has_value() || *since <= version);
  TableSnapshot head;
  head.scalars = updater_.scalars();
  head.checks = schedule_.checks();
  head.partial =
      since.has_value() && idle_ == graph::UntouchedRowPolicy::kStay && schedule_.Reaches(*since);
  const auto age_max = head.partial ? static_cast<uint32_t>(version - *since) : UINT32_MAX;
  copy.Begin({static_cast<uint32_t>(version), age_max, buckets_.kept()}, std::move(head));
}

StatusOr<TableSnapshot> SparseTable::Snapshot(uint64_t version,
                                              std::optional<uint64_t> since) const {
  CowTableSnapshot copy(rows_);
  BeginCopy(copy, version, since);
  for (int bucket = 0; bucket < kRowBuckets; ++bucket) copy.CopyBucket(bucket);
  return copy.Finish();
}

void SparseTable::BeginSnapshot(uint64_t version, std::optional<uint64_t> since) {
  BeginCopy(snapshot_, version, since);
}

// ---- The update of a version

Status SparseTable::CheckPush(const RowsGradient& gradient) const {
  TD_RETURN_IF_ERROR(buckets_.CheckServed(gradient.ids, /*ascending=*/true));
  return Annotate(rows_.accessor().CheckCounts(gradient.ids, gradient.values),
                  "table " + spec_.variable);
}

Status SparseTable::Begin(uint64_t version, int64_t event_time_ms, bool keep_previous) {
  version_ = static_cast<uint32_t>(version);
  previous_.Begin(keep_previous);
  changed_.Begin(version);
  const std::optional<RowCheck> check = schedule_.Next(version, event_time_ms);
  if (!check) return OkStatus();
  snapshot_.BeforeChangeOfAll();
  std::vector<uint64_t> gone;
  TD_ASSIGN_OR_RETURN(
      const size_t removed,
      rows_.Shrink(*check, [this, &gone](uint64_t id, const void* weights, size_t columns) {
        previous_.KeepRemoved(id, weights, columns);
        if (changed_.remembers()) gone.push_back(id);
      }));
  removed_ += removed;
  std::ranges::sort(gone);
  changed_.Add(gone);
  return OkStatus();
}

Status SparseTable::Apply(std::span<const RowsGradient> gradients, float learning_rate) {
  const RowsGradient merged = merger_.Sum(gradients);
  if (rows_.tiers() != nullptr) TD_RETURN_IF_ERROR(rows_.tiers()->Fetch(merged.ids));
  if (idle_ == graph::UntouchedRowPolicy::kStay) {
    snapshot_.BeforeChange(merged.ids);
  } else {
    snapshot_.BeforeChangeOfAll();
  }
  const auto [ids, values] = DropRejected(merged);
  TD_RETURN_IF_ERROR(Place(ids));
  changed_.Add(ids);
  TD_RETURN_IF_ERROR(idle_ == graph::UntouchedRowPolicy::kStay
                         ? UpdateTouched(ids, values, learning_rate)
                         : UpdateAll(ids, values, learning_rate));
  updater_.Finish();
  TD_RETURN_IF_ERROR(Extend(ids));
  // Ignores an error of Trim. If there is still no room, the next call of Prepare returns the
  // error.
  if (rows_.tiers() != nullptr) rows_.tiers()->Trim().IgnoreError();
  return OkStatus();
}

RowsGradient SparseTable::DropRejected(const RowsGradient& gradient) {
  if (!spec_.rules.admits()) return gradient;
  const size_t n = gradient.ids.size();
  std::vector<uint32_t> at(n);
  rows_.store().Find(gradient.ids, at.data());
  std::vector<bool> admitted(n);
  for (size_t i = 0; i < n; ++i) {
    admitted[i] = at[i] != RowStore::kNone || rows_.admission().Admit(gradient.ids[i], version_);
  }
  const RowsGradient rest = merger_.Select(gradient, admitted);
  dropped_ += n - rest.ids.size();
  return rest;
}

Status SparseTable::Place(std::span<const uint64_t> ids) {
  RowStore& store = rows_.store();
  const PullLookupCache::Pull* const recent = reader_.Recent(ids);
  at_.resize(ids.size());
  if (recent != nullptr) {
    at_ = recent->at;
  } else {
    TD_RETURN_IF_ERROR(parts_.Run(ids.size(), [&](int, size_t begin, size_t end) {
      store.Find(ids.subspan(begin, end - begin), at_.data() + begin);
      return OkStatus();
    }));
  }
  new_.clear();
  const float* fresh = recent == nullptr || recent->fresh.empty() ? nullptr : recent->fresh.data();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (at_[i] != RowStore::kNone) continue;
    new_.push_back({i, fresh});
    if (fresh != nullptr) fresh += dim_;
  }
  if (recent != nullptr && recent->rows != store.size()) {
    // Removes the rows that other pushes have created since the pull.
    std::erase_if(new_, [&](const NewRow& row) {
      store.Find(ids.subspan(row.position, 1), &at_[row.position]);
      return at_[row.position] != RowStore::kNone;
    });
  }
  return AddNew(ids);
}

Status SparseTable::AddNew(std::span<const uint64_t> ids) {
  RowStore& store = rows_.store();
  TD_ASSIGN_OR_RETURN(new_from_, store.Grow(new_.size(), rows_.accessor().extends()));
  uint32_t next = new_from_;
  for (const NewRow& row : new_) at_[row.position] = next++;
  return parts_.Run(new_.size(), kRowBuckets, [&](int, size_t begin, size_t end) {
    const auto mine = [=](uint64_t id) {
      const auto bucket = static_cast<size_t>(RowBucket(id));
      return begin <= bucket && bucket < end;
    };
    for (size_t i = 0; i < new_.size(); ++i) {
      if (i + kAhead < new_.size()) {
        const uint64_t ahead = ids[new_[i + kAhead].position];
        if (mine(ahead)) store.index().Prefetch(ahead);
      }
      const size_t position = new_[i].position;
      if (mine(ids[position])) store.Insert(ids[position], at_[position]);
    }
    return OkStatus();
  });
}

void SparseTable::CountRows(std::span<const uint64_t> ids, const float* pushed, size_t begin,
                            size_t end) {
  TD_REQUIRE(begin <= end && end <= ids.size() && at_.size() == ids.size());
  RowStore& store = rows_.store();
  const RowAccessor& accessor = rows_.accessor();
  RowTiers* const tiers = rows_.tiers();
  const size_t width = merger_.width();
  auto made = std::partition_point(new_.begin(), new_.end(),
                                   [begin](const NewRow& row) { return row.position < begin; });
  for (size_t i = begin; i < end; ++i) {
    if (i + kAhead < end) store.Prefetch(at_[i + kAhead]);
    if (made != new_.end() && made->position == i) {
      const int64_t columns = accessor.columns_at_first();
      float* row = store.Row(at_[i]);
      if (made->fresh != nullptr) {
        RowReader::CopyRow(made->fresh, columns, row);
      } else {
        reader_.CopyInitial(ids[i], columns, row);
      }
      for (const float start : updater_.slot_start()) std::fill_n(row += columns, columns, start);
      ++made;
    }
    RowUse use = store.Use(at_[i]);
    accessor.Count(pushed + i * width, version_, use);
    store.SetUse(at_[i], use);
    if (tiers != nullptr) tiers->Change(at_[i]);
  }
}

Status SparseTable::UpdateTouched(std::span<const uint64_t> ids, const float* gradients,
                                  float rate) {
  const auto dim = static_cast<size_t>(dim_);
  float* const previous = previous_.keeps() ? previous_.OfIds(ids) : nullptr;
  return parts_.Run(ids.size(), [&](int part, size_t from, size_t to) {
    // Processes a few rows at a time, so that the rows stay in the CPU cache.
    size_t begin = from;
    do {
      const size_t end = std::min(begin + updater_.rows_max(), to);
      CountRows(ids, gradients, begin, end);
      for (size_t i = begin; previous != nullptr && i < end; ++i) {
        CopyPrevious(at_[i], previous + i * dim);
      }
      const std::span<const uint32_t> at(at_.data() + begin, end - begin);
      const float* const pushed = gradients + begin * merger_.width();
      TD_RETURN_IF_ERROR(updater_.Update(part, rows_.store(), at, pushed, push_width(), rate));
      begin = end;
    } while (begin < to);
    return OkStatus();
  });
}

Status SparseTable::UpdateAll(std::span<const uint64_t> ids, const float* gradients, float rate) {
  CountRows(ids, gradients, 0, ids.size());
  RowStore& store = rows_.store();
  if (previous_.keeps()) {
    const auto dim = static_cast<size_t>(dim_);
    float* const previous = previous_.OfAllRows();
    for (uint32_t at = 0; at < store.size(); ++at) CopyPrevious(at, previous + at * dim);
  }
  return updater_.UpdateAll(store, at_, gradients, rate);
}

Status SparseTable::Extend(std::span<const uint64_t> ids) {
  const RowAccessor& accessor = rows_.accessor();
  if (!accessor.extends()) return OkStatus();
  RowStore& store = rows_.store();
  std::vector<uint64_t> extended;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (store.brief(at_[i]) && accessor.Extends(store.Use(at_[i]))) extended.push_back(ids[i]);
  }
  const int64_t columns = accessor.columns_at_first();
  std::vector<float> brief(static_cast<size_t>(rows_.width(/*brief=*/true)));
  for (const uint64_t id : extended) {
    uint32_t at = RowStore::kNone;
    // Looks up each row again, because each call of Extend changes the indices of other rows.
    store.Find({&id, 1}, &at);
    std::copy_n(store.Row(at), brief.size(), brief.data());
    TD_ASSIGN_OR_RETURN(at, store.Extend(at));
    float* row = store.Row(at);
    reader_.CopyInitial(id, dim_, row);
    std::copy_n(brief.data(), columns, row);
    const float* slot = brief.data();
    for (const float start : updater_.slot_start()) {
      std::fill_n(row += dim_, dim_, start);
      std::copy_n(slot += columns, columns, row);
    }
  }
  return OkStatus();
}

void SparseTable::CopyPrevious(uint32_t at, float* out) const {
  // If the rules can delay the creation of rows, a new row read as zeros before this step.
  // Otherwise the row read as its initial values, and the weights in the store are still these
  // values.
  if (at >= new_from_ && spec_.rules.admits()) return void(std::fill_n(out, dim_, 0.0f));
  reader_.CopyWeights(at, out);
}

Status SparseTable::SetRows(const RowValues& values, uint64_t version) {
  TD_RETURN_IF_ERROR(buckets_.CheckKept(values.ids));
  for (const WaitingRow& row : values.waiting) {
    TD_RETURN_IF_ERROR(buckets_.CheckKept({&row.id, 1}));
  }
  TD_RETURN_IF_ERROR(rows_.CheckContent(values));
  for (const uint64_t id : values.ids) snapshot_.BeforeChange(RowBucket(id));
  for (const WaitingRow& row : values.waiting) snapshot_.BeforeChange(RowBucket(row.id));
  return rows_.Set(values, version);
}

Status SparseTable::SetScalar(const std::string& slot, float value) {
  std::vector<std::string> names;
  for (auto& [name, now] : updater_.scalars()) {
    names.push_back(name);
    if (name != slot) continue;
    now = value;
    return OkStatus();
  }
  return NotFound("table %s has no slot \"%s\" with one number%s", spec_.variable, slot,
                  OrDidYouMean(slot, names));
}

// ---- Pulls

size_t SparseTable::RowsOfRead(size_t rows) {
  if (rows_.tiers() == nullptr) return rows;
  constexpr size_t kFewest = 64;
  return std::clamp<size_t>(rows_.tiers()->rows_max() / 8, kFewest, RowTiers::kGroup);
}

Status SparseTable::Pull(std::span<const uint64_t> ids, bool previous, float* out) {
  const size_t group = RowsOfRead(ids.size());
  for (size_t begin = 0; begin < ids.size(); begin += group) {
    const std::span some = ids.subspan(begin, std::min(group, ids.size() - begin));
    if (rows_.tiers() != nullptr) TD_RETURN_IF_ERROR(Prepare(some));
    reader_.Gather(some, out + begin * static_cast<size_t>(dim_));
  }
  // Overwrites the weights of rows that Begin removed or that Apply changed with their previous
  // weights.
  if (previous) previous_.Overwrite(ids, out);
  return OkStatus();
}

}  // namespace tandem::pserver
