#include "pserver/tables/rows/table_row_set.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {

TableRowSet::TableRowSet(const TableSpec& spec, int64_t width, int64_t brief_width)
    : rules_(spec.rules),
      table_(spec.variable),
      accessor_(spec.rules, spec.dim()),
      dim_(spec.dim()),
      width_(width),
      brief_width_(brief_width),
      store_(width, brief_width),
      admission_(spec.rules, spec.seed, spec.variable) {
  TD_REQUIRE(width >= dim_ && brief_width < width);
  TD_REQUIRE(accessor_.extends() == (brief_width > 0));
}

void TableRowSet::Limit(ColdStore& cold, uint64_t bytes) {
  CHECK(size() == 0 && tiers_ == nullptr);
  const uint64_t rows = std::max<uint64_t>(1, bytes / RowMemoryBytes(width_));
  tiers_ = std::make_unique<RowTiers>(
      accessor_, width_, brief_width_,
      static_cast<uint32_t>(std::min<uint64_t>(rows, UINT32_MAX - 1)), store_, cold);
}

TableInfo TableRowSet::Info() const {
  TableInfo info{table_, size(), store_.bytes(), admission_.waiting()};
  info.extended = store_.slabs(/*brief=*/false).size();
  if (tiers_ == nullptr) return info;
  info.extended += tiers_->cold_full();
  info.cold_rows = tiers_->cold();
  info.fetched = tiers_->counts().fetched;
  info.written = tiers_->counts().written;
  info.read_seconds = tiers_->counts().read_seconds;
  return info;
}

Status TableRowSet::Prepare(std::span<const uint64_t> ids) {
  if (tiers_ == nullptr) return OkStatus();
  TD_RETURN_IF_ERROR(tiers_->Trim());
  return tiers_->Fetch(ids);
}

Status TableRowSet::CheckContent(const RowValues& values) const {
  const auto brief = static_cast<size_t>(
      std::ranges::count_if(values.use, [](const RowAge& use) { return use.brief; }));
  if (brief > 0 && !accessor_.extends()) {
    return InvalidArgument(
        "table %s has %d rows without an embedding, which accessor=%s does not support", table_,
        brief, Name(rules_.accessor));
  }
  const size_t expected = (values.ids.size() - brief) * static_cast<size_t>(width_) +
                          brief * static_cast<size_t>(brief_width_);
  if (values.content.size() == expected) return OkStatus();
  return InvalidArgument("%d rows of table %s have %d values in total, expected %d",
                         values.ids.size(), table_, values.content.size(), expected);
}

Status TableRowSet::Set(const RowValues& values, uint64_t version) {
  TD_REQUIRE(CheckContent(values).ok());
  store_.Expect(values.ids);
  const float* from = values.content.data();
  for (size_t i = 0; i < values.ids.size(); ++i) {  // `values.ids` may have the same id twice
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
    const auto floats = static_cast<size_t>(width(use.brief));
    std::copy_n(from, floats, store_.Row(at));
    from += floats;
    store_.SetUse(at, {use.show, use.click, static_cast<uint32_t>(version) - use.age});
  }
  for (const WaitingRow& row : values.waiting) {
    admission_.Set(row, static_cast<uint32_t>(version));
  }
  return OkStatus();
}

StatusOr<size_t> TableRowSet::Shrink(const RowCheck& check, const OnRemoved& removed) {
  size_t count = 0;
  if (tiers_ != nullptr) {
    TD_ASSIGN_OR_RETURN(count, tiers_->Shrink(check, [&](const ColdRow& row) {
      removed(row.id, row.values, accessor_.columns(row.brief));
    }));
  }
  for (uint32_t n = store_.size(); n-- > 0;) {
    const uint32_t at = store_.At(n);
    RowUse use = store_.Use(at);
    const bool stays = accessor_.FadeAndStay(check, use);
    store_.SetUse(at, use);
    if (stays) continue;
    removed(store_.Id(at), store_.Row(at), accessor_.columns(store_.brief(at)));
    store_.Remove(at);
    ++count;
  }
  if (check.age_max != RowCheck{}.age_max) {
    admission_.Forget(static_cast<uint32_t>(check.version), check.age_max);
  }
  return count;
}

Status TableRowSet::DropBucket(int bucket) {
  const std::vector<uint64_t> hot = store_.index().IdsOf(bucket);
  if (tiers_ != nullptr) {
    std::vector<uint64_t> ids;
    TD_RETURN_IF_ERROR(tiers_->Scan(bucket, [&ids](const ColdRow& row) {
      ids.push_back(row.id);
      return OkStatus();
    }));
    ids.insert(ids.end(), hot.begin(), hot.end());
    TD_RETURN_IF_ERROR(tiers_->Discard(ids));
  }
  for (const uint64_t id : hot) {
    uint32_t at = RowStore::kNone;
    store_.Find({&id, 1}, &at);
    store_.Remove(at);
  }
  admission_.Drop(bucket);
  return OkStatus();
}

Status TableRowSet::AppendBucket(int bucket, const ReadOptions& options, RowValues& out) const {
  const SavedRows* const saved = options.saved;
  const auto append = [&](uint64_t id, const RowUse& use, const void* row, bool brief) {
    if (options.examined != nullptr) ++*options.examined;
    const uint32_t age = options.version - use.last;
    if (age > options.age_max) return;
    if (options.score_min && accessor_.Score(use) < *options.score_min) return;
    out.ids.push_back(id);
    const size_t floats =
        options.with_slots ? static_cast<size_t>(width(brief)) : accessor_.columns(brief);
    const size_t begin = out.content.size();
    // Without slots, each row has dim weights in the result. The missing weights of a brief row are
    // 0.
    out.content.resize(begin + (options.with_slots ? floats : static_cast<size_t>(dim_)), 0.0f);
    std::memcpy(out.content.data() + begin, row, floats * sizeof(float));
    if (options.with_slots) out.use.push_back({use.show, age, use.click, brief});
  };
  const auto append_at = [&append](const RowStore& store, uint32_t at) {
    append(store.Id(at), store.Use(at), store.Row(at), store.brief(at));
  };
  std::vector<uint64_t> ids = store_.index().IdsOf(bucket), changed;
  if (saved != nullptr) changed = saved->IdsOf(bucket);
  if (!changed.empty()) {
    const std::vector<uint64_t> now = std::exchange(ids, {});
    std::ranges::set_union(now, changed, std::back_inserter(ids));
  }
  std::vector<uint32_t> at(ids.size());
  store_.Find(ids, at.data());
  // Reserves memory only for the first bucket of a full read. For later buckets the vectors grow as
  // usual. Partial reads have few rows.
  if (out.ids.empty() && options.age_max == UINT32_MAX) {
    size_t floats = 0;
    for (const uint32_t i : at) {
      if (i != RowStore::kNone) floats += static_cast<size_t>(width(store_.brief(i)));
    }
    out.content.reserve(floats);
    out.ids.reserve(ids.size());
    out.use.reserve(ids.size());
  }
  size_t next = 0;
  const auto append_below = [&](uint64_t id) {
    for (; next < ids.size() && ids[next] < id; ++next) {
      const auto state = changed.empty() ? SavedRows::State() : saved->Find(ids[next]);
      if (!state.saved) append_at(store_, at[next]);
      if (state.exists) append_at(saved->rows(), state.at);
    }
  };
  if (tiers_ != nullptr) {
    TD_RETURN_IF_ERROR(tiers_->Scan(bucket, [&](const ColdRow& row) {
      append_below(row.id);
      // A row that was saved for a snapshot is among `ids`, so append_below appends the row.
      if (next == ids.size() || ids[next] != row.id) append(row.id, row.use, row.values, row.brief);
      return OkStatus();
    }));
  }
  append_below(UINT64_MAX);
  if (!options.with_slots) return OkStatus();
  std::vector<WaitingRow> waiting = admission_.OfBucket(bucket, options.version);
  if (saved != nullptr) waiting = saved->Waiting(bucket, waiting);
  out.waiting.insert(out.waiting.end(), waiting.begin(), waiting.end());
  return OkStatus();
}

}  // namespace tandem::pserver
