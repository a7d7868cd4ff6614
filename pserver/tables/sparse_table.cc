#include "pserver/tables/sparse_table.h"

#include <algorithm>
#include <cstring>

#include "common/base/nearest.h"
#include "common/tensor/row_buckets.h"

namespace tandem::pserver {
namespace {

constexpr size_t kPartRows = 1024;  // rows that keep a thread busy for about 100 us
constexpr size_t kAhead = 16;       // rows prefetched before they are used

Status CheckOptimizer(const TableSpec& spec, const OptimizerSpec& optimizer) {
  TD_ASSIGN_OR_RETURN(const UpdateScope reach, ReachOf(optimizer));
  if (reach != UpdateScope::kElement) {
    return Unimplemented(
        "optimizer %s with these settings needs norms of complete parameters, which tables do not "
        "support [TD1203]",
        optimizer.type);
  }
  TD_ASSIGN_OR_RETURN(const UntouchedRowPolicy idle, IdleRowsOf(optimizer, spec.variable));
  if (idle == UntouchedRowPolicy::kMove) {
    return Unimplemented(
        "optimizer %s also changes rows that never had a gradient, which tables do not support "
        "[TD1203]; hint: set optimizer.lazy_mode",
        optimizer.type);
  }
  if (idle == UntouchedRowPolicy::kFade && RowAccessor(spec.rules, spec.dim()).extends()) {
    return Unimplemented(
        "optimizer %s also changes rows without a gradient, which accessor=%s does not support "
        "[TD1203]; hint: set optimizer.lazy_mode",
        optimizer.type, Name(spec.rules.accessor));
  }
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<SparseTable>> SparseTable::Make(const TableSpec& spec,
                                                         const OptimizerSpec& optimizer,
                                                         const Backend& backend, Device& device,
                                                         ForkJoin* workers) {
  TD_RETURN_IF_ERROR(CheckOptimizer(spec, optimizer));
  TD_ASSIGN_OR_RETURN(const UntouchedRowPolicy idle, IdleRowsOf(optimizer, spec.variable));
  TD_ASSIGN_OR_RETURN(RowUpdater updater,
                      RowUpdater::Make(spec, optimizer, backend, device,
                                       workers == nullptr ? 1 : workers->threads()));
  auto table =
      std::unique_ptr<SparseTable>(new SparseTable(spec, idle, std::move(updater), workers));
  for (int b = spec.bucket_begin; b < spec.bucket_end; ++b) {
    table->kept_[static_cast<size_t>(b)] = table->served_[static_cast<size_t>(b)] = true;
  }
  return table;
}

Status SparseTable::InParts(size_t rows, size_t range, const PartWork& work) const {
  int parts = 1;
  // The marks of tiers do not support several threads.
  if (workers_ != nullptr && tiers_ == nullptr) {
    parts = std::clamp(static_cast<int>(rows / kPartRows), 1, workers_->threads());
  }
  if (parts == 1) return work(0, 0, range);
  std::vector<Status> done(static_cast<size_t>(parts));
  workers_->Run(parts, [&](int part) {
    const auto p = static_cast<size_t>(part), n = static_cast<size_t>(parts);
    done[p] = work(part, range * p / n, range * (p + 1) / n);
  });
  for (const Status& status : done) TD_RETURN_IF_ERROR(status);
  return OkStatus();
}

double SparseTable::bytes_max(bool may_get_all) const {
  // All rows are in memory in any case with kFade.
  const bool all = may_get_all && idle_ != UntouchedRowPolicy::kFade;
  const double buckets = all ? kRowBuckets : spec_.bucket_end - spec_.bucket_begin;
  const double rows = static_cast<double>(spec_.height()) * buckets / kRowBuckets;
  return rows * static_cast<double>(RowStore::BytesOfRow(width_));
}

Status SparseTable::Limit(ColdStore& cold, uint64_t bytes) {
  CHECK(rows() == 0);
  if (idle_ == UntouchedRowPolicy::kFade) {
    return Unimplemented(
        "the optimizer also changes rows without a gradient, so all rows of table %s must fit into "
        "memory [TD1203]; hint: set optimizer.lazy_mode, or allow %.1f MB in table_memory_mb",
        spec_.variable, bytes_max() / 1e6);
  }
  const uint64_t rows = std::max<uint64_t>(1, bytes / RowStore::BytesOfRow(width_));
  tiers_ = std::make_unique<RowTiers>(
      accessor_, width_, brief_width_,
      static_cast<uint32_t>(std::min<uint64_t>(rows, UINT32_MAX - 1)), store_, cold);
  return OkStatus();
}

Status SparseTable::Prepare(std::span<const uint64_t> ids) {
  if (tiers_ == nullptr) return OkStatus();
  TD_RETURN_IF_ERROR(tiers_->Trim());
  return tiers_->Fetch(ids);
}

RowsGradient SparseTable::Merge(std::span<const RowsGradient> gradients) {
  if (gradients.size() == 1) return gradients[0];
  merged_ids_.clear();
  merged_.clear();
  std::vector<size_t> next(gradients.size(), 0);
  while (true) {
    uint64_t id = UINT64_MAX;  // above every height
    for (size_t r = 0; r < gradients.size(); ++r) {
      if (next[r] < gradients[r].ids.size()) id = std::min(id, gradients[r].ids[next[r]]);
    }
    if (id == UINT64_MAX) break;
    merged_ids_.push_back(id);
    const size_t begin = merged_.size();
    for (size_t r = 0; r < gradients.size(); ++r) {
      if (next[r] == gradients[r].ids.size() || gradients[r].ids[next[r]] != id) continue;
      const float* g = gradients[r].values + next[r]++ * static_cast<size_t>(push_width());
      if (merged_.size() == begin) {
        merged_.insert(merged_.end(), g, g + push_width());
      } else {
        for (int64_t c = 0; c < push_width(); ++c) merged_[begin + c] += g[c];
      }
    }
  }
  return {merged_ids_, merged_.data()};
}

void SparseTable::FillFirst(uint64_t id, int64_t columns, float* weights) const {
  fresh_.Fill(static_cast<int64_t>(id) * dim_, {weights, static_cast<size_t>(columns)});
}

Status SparseTable::Place(std::span<const uint64_t> ids) {
  const PullLookupCache::Pull* const recent = recent_.Find(ids, store_.moves());
  at_.resize(ids.size());
  if (recent != nullptr) {
    at_ = recent->at;
  } else {
    TD_RETURN_IF_ERROR(InParts(ids.size(), [&](int, size_t begin, size_t end) {
      store_.Find(ids.subspan(begin, end - begin), at_.data() + begin);
      return OkStatus();
    }));
  }
  made_.clear();
  const float* fresh = recent == nullptr || recent->fresh.empty() ? nullptr : recent->fresh.data();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (at_[i] != RowStore::kNone) continue;
    made_.push_back({i, fresh});
    if (fresh != nullptr) fresh += dim_;
  }
  if (recent != nullptr && recent->rows != store_.size()) {
    std::erase_if(made_, [&](const MadeRow& row) {  // rows that other pushes have made since
      store_.Find(ids.subspan(row.position, 1), &at_[row.position]);
      return at_[row.position] != RowStore::kNone;
    });
  }
  return AddMade(ids);
}

Status SparseTable::AddMade(std::span<const uint64_t> ids) {
  uint32_t next = store_.Next(accessor_.extends());
  TD_RETURN_IF_ERROR(store_.Grow(made_.size(), accessor_.extends()));
  for (const MadeRow& row : made_) at_[row.position] = next++;
  return InParts(made_.size(), kRowBuckets, [&](int, size_t begin, size_t end) {
    const auto mine = [=](uint64_t id) {
      const auto bucket = static_cast<size_t>(RowBucket(id));
      return begin <= bucket && bucket < end;
    };
    for (size_t i = 0; i < made_.size(); ++i) {
      if (i + kAhead < made_.size()) {
        const uint64_t ahead = ids[made_[i + kAhead].position];
        if (mine(ahead)) store_.PrefetchIndex(ahead);
      }
      const size_t position = made_[i].position;
      if (mine(ids[position])) store_.Insert(ids[position], at_[position]);
    }
    return OkStatus();
  });
}

void SparseTable::Begin(std::span<const uint64_t> ids, const float* pushed, size_t begin,
                        size_t end) {
  const auto width = static_cast<size_t>(push_width());
  auto made = std::partition_point(made_.begin(), made_.end(),
                                   [begin](const MadeRow& row) { return row.position < begin; });
  for (size_t i = begin; i < end; ++i) {
    if (i + kAhead < end) store_.Prefetch(at_[i + kAhead]);
    if (made != made_.end() && made->position == i) {
      const int64_t columns = accessor_.columns_at_first();
      float* row = store_.Row(at_[i]);
      if (made->fresh != nullptr) {
        CopyRow(made->fresh, columns, row);
      } else {
        FillFirst(ids[i], columns, row);
      }
      for (const float start : updater_.slot_start()) std::fill_n(row += columns, columns, start);
      ++made;
    }
    RowUse use = store_.Use(at_[i]);
    accessor_.Count(pushed + i * width, version_, use);
    store_.SetUse(at_[i], use);
    if (tiers_ != nullptr) tiers_->Change(at_[i]);
  }
}

RowsGradient SparseTable::DropRefused(const RowsGradient& gradient) {
  if (!spec_.rules.admits()) return gradient;
  const size_t n = gradient.ids.size();
  std::vector<uint32_t> at(n);
  store_.Find(gradient.ids, at.data());
  std::vector<uint64_t> ids;
  std::vector<float> values;
  for (size_t i = 0; i < n; ++i) {
    if (at[i] == RowStore::kNone && !admission_.Admit(gradient.ids[i], version_)) continue;
    const float* g = gradient.values + i * static_cast<size_t>(push_width());
    ids.push_back(gradient.ids[i]);
    values.insert(values.end(), g, g + push_width());
  }
  dropped_ += n - ids.size();
  merged_ids_ = std::move(ids);
  merged_ = std::move(values);
  return {merged_ids_, merged_.data()};
}

Status SparseTable::Shrink() {
  BeforeChangeOfAll();
  const auto keep = [this](uint64_t id, const void* weights, bool brief) {
    if (!keeps_previous_) return;
    std::vector<float>& kept = previous_removed_[id];
    kept.assign(static_cast<size_t>(dim_), 0.0f);
    const int64_t columns = brief ? accessor_.columns_at_first() : dim_;
    std::memcpy(kept.data(), weights, static_cast<size_t>(columns) * sizeof(float));
  };
  if (tiers_ != nullptr) {
    TD_ASSIGN_OR_RETURN(const size_t removed, tiers_->Shrink(version_, [&](const ColdRow& row) {
      keep(row.id, row.values, row.brief);
    }));
    removed_ += removed;
  }
  for (uint32_t n = store_.size(); n-- > 0;) {
    const uint32_t at = store_.At(n);
    RowUse use = store_.Use(at);
    const bool stays = accessor_.FadeAndStay(version_, use);
    store_.SetUse(at, use);
    if (stays) continue;
    keep(store_.Id(at), store_.Row(at), store_.brief(at));
    store_.Remove(at);
    ++removed_;
  }
  const auto ttl = static_cast<uint32_t>(spec_.rules.ttl);
  if (ttl > 0) admission_.Forget(version_, ttl);
  return OkStatus();
}

TableInfo SparseTable::Info() const {
  TableInfo info{spec_.variable, rows(), bytes(), admission_.waiting(), dropped_, removed_};
  info.extended = store_.full();
  if (tiers_ == nullptr) return info;
  info.extended += tiers_->cold_full();
  info.cold_rows = tiers_->cold();
  info.fetched = tiers_->counts().fetched;
  info.written = tiers_->counts().written;
  info.read_seconds = tiers_->counts().read_seconds;
  return info;
}

void SparseTable::KeepPrevious(uint32_t at, uint32_t made_from, float* out) const {
  // A row that was just created read as zeros before if rules admit rows; otherwise as its current
  // value.
  if (at >= made_from && spec_.rules.admits()) return void(std::fill_n(out, dim_, 0.0f));
  CopyWeights(at, out);
}

Status SparseTable::Begin(uint64_t version, bool keep_previous) {
  version_ = static_cast<uint32_t>(version);
  keeps_previous_ = keep_previous;
  previous_ids_.clear();
  previous_.clear();
  previous_removed_.clear();
  const auto every = static_cast<uint64_t>(spec_.rules.shrink_every);
  return every > 0 && version > 0 && version % every == 0 ? Shrink() : OkStatus();
}

Status SparseTable::Apply(std::span<const RowsGradient> gradients, float learning_rate) {
  const RowsGradient merged = Merge(gradients);
  if (tiers_ != nullptr) TD_RETURN_IF_ERROR(tiers_->Fetch(merged.ids));
  idle_ == UntouchedRowPolicy::kStay ? BeforeChange(merged.ids) : BeforeChangeOfAll();
  const uint32_t made_from = store_.Next(accessor_.extends());
  const auto [ids, values] = DropRefused(merged);
  TD_RETURN_IF_ERROR(Place(ids));
  TD_RETURN_IF_ERROR(idle_ == UntouchedRowPolicy::kStay
                         ? UpdateTouched(ids, values, made_from, learning_rate)
                         : UpdateAll(ids, values, made_from, learning_rate));
  updater_.Finish();
  TD_RETURN_IF_ERROR(Extend(ids));
  // If there is no room now, the next Prepare reports the error.
  if (tiers_ != nullptr) tiers_->Trim().IgnoreError();
  return OkStatus();
}

Status SparseTable::UpdateTouched(std::span<const uint64_t> ids, const float* gradients,
                                  uint32_t made_from, float rate) {
  const auto dim = static_cast<size_t>(dim_);
  if (keeps_previous_) {
    previous_ids_.assign(ids.begin(), ids.end());
    previous_.resize(ids.size() * dim);
  }
  return InParts(ids.size(), [&](int part, size_t from, size_t to) {
    // Processes some rows at a time, which stay in the CPU cache.
    size_t begin = from;
    do {
      const size_t end = std::min(begin + updater_.rows_max(), to);
      Begin(ids, gradients, begin, end);
      for (size_t i = begin; keeps_previous_ && i < end; ++i) {
        KeepPrevious(at_[i], made_from, previous_.data() + i * dim);
      }
      const std::span<const uint32_t> at(at_.data() + begin, end - begin);
      const float* const pushed = gradients + begin * static_cast<size_t>(push_width());
      TD_RETURN_IF_ERROR(updater_.Update(part, store_, at, pushed, push_width(), rate));
      begin = end;
    } while (begin < to);
    return OkStatus();
  });
}

Status SparseTable::UpdateAll(std::span<const uint64_t> ids, const float* gradients,
                              uint32_t made_from, float rate) {
  Begin(ids, gradients, 0, ids.size());
  if (keeps_previous_) {
    const auto dim = static_cast<size_t>(dim_);
    previous_.resize(store_.size() * dim);
    for (uint32_t at = 0; at < store_.size(); ++at) {
      KeepPrevious(at, made_from, previous_.data() + at * dim);
    }
  }
  return updater_.UpdateAll(store_, at_, gradients, rate);
}

Status SparseTable::Extend(std::span<const uint64_t> ids) {
  if (!accessor_.extends()) return OkStatus();
  std::vector<uint64_t> extended;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (store_.brief(at_[i]) && accessor_.Extends(store_.Use(at_[i]))) extended.push_back(ids[i]);
  }
  const int64_t columns = accessor_.columns_at_first();
  std::vector<float> brief(static_cast<size_t>(brief_width_));
  for (const uint64_t id : extended) {
    uint32_t at = RowStore::kNone;
    store_.Find({&id, 1}, &at);  // each Extend moves other rows
    std::copy_n(store_.Row(at), brief.size(), brief.data());
    TD_ASSIGN_OR_RETURN(at, store_.Extend(at));
    float* row = store_.Row(at);
    FillFirst(id, dim_, row);
    std::copy_n(brief.data(), columns, row);
    const float* slot = brief.data();
    for (const float start : updater_.slot_start()) {
      std::fill_n(row += dim_, dim_, start);
      std::copy_n(slot += columns, columns, row);
    }
  }
  return OkStatus();
}

Status SparseTable::CheckCounts(const RowsGradient& gradient) const {
  return Annotate(accessor_.CheckCounts(gradient.ids, gradient.values), "table " + spec_.variable);
}

Status SparseTable::CheckContent(const RowValues& values) const {
  const auto brief = static_cast<size_t>(
      std::ranges::count_if(values.use, [](const RowAge& use) { return use.brief; }));
  if (brief > 0 && !accessor_.extends()) {
    return InvalidArgument("table %s has %d short rows, which accessor=%s does not support",
                           spec_.variable, brief, Name(spec_.rules.accessor));
  }
  const size_t expected = (values.ids.size() - brief) * static_cast<size_t>(width_) +
                          brief * static_cast<size_t>(brief_width_);
  if (values.content.size() == expected) return OkStatus();
  return InvalidArgument("%d rows of table %s have %d values, expected %d", values.ids.size(),
                         spec_.variable, values.content.size(), expected);
}

Status SparseTable::SetRows(const RowValues& values, uint64_t version) {
  TD_RETURN_IF_ERROR(CheckKept(values.ids));
  for (const WaitingRow& row : values.waiting) TD_RETURN_IF_ERROR(CheckKept({&row.id, 1}));
  TD_RETURN_IF_ERROR(CheckContent(values));
  for (const uint64_t id : values.ids) BeforeChange(RowBucket(id));
  for (const WaitingRow& row : values.waiting) BeforeChange(RowBucket(row.id));
  store_.Expect(values.ids);
  const float* from = values.content.data();
  for (size_t i = 0; i < values.ids.size(); ++i) {  // an id may be repeated
    if (tiers_ != nullptr && i % RowTiers::kGroup == 0) {
      const size_t n = std::min(RowTiers::kGroup, values.ids.size() - i);
      TD_RETURN_IF_ERROR(tiers_->Trim());
      TD_RETURN_IF_ERROR(tiers_->Discard({&values.ids[i], n}));
    }
    const RowAge use = values.use.empty() ? RowAge{} : values.use[i];
    TD_ASSIGN_OR_RETURN(uint32_t at, store_.FindOrAdd(values.ids[i], use.brief));
    if (store_.brief(at) != use.brief) {
      store_.Remove(at);
      TD_ASSIGN_OR_RETURN(at, store_.Add(values.ids[i], use.brief));
    }
    std::copy_n(from, store_.floats(at), store_.Row(at));
    from += store_.floats(at);
    store_.SetUse(at, {use.show, use.click, static_cast<uint32_t>(version) - use.age});
  }
  for (const WaitingRow& row : values.waiting) {
    admission_.Set(row, static_cast<uint32_t>(version));
  }
  return OkStatus();
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

}  // namespace tandem::pserver
