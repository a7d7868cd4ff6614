// The part of SparseTable that reads the weights of rows.
#include <algorithm>
#include <array>

#include "pserver/tables/sparse_table.h"

namespace tandem::pserver {

void SparseTable::FillAbsent(std::span<const uint64_t> ids, std::span<const size_t> positions,
                             std::vector<float>& scratch, float* out) const {
  const int64_t columns = spec_.rules.admits() ? 0 : accessor_.columns_at_first();
  std::array<uint64_t, kPullGroup> offsets;
  for (size_t i = 0; i < positions.size(); ++i) {
    offsets[i] = ids[positions[i]] * static_cast<uint64_t>(dim_);
  }
  scratch.resize(positions.size() * static_cast<size_t>(columns));
  fresh_.FillRows(std::span(offsets).first(positions.size()), columns, scratch.data());
  const float* from = scratch.data();
  for (const size_t position : positions) {
    float* const row = out + position * static_cast<size_t>(dim_);
    CopyRow(from, columns, row);
    std::fill(row + columns, row + dim_, 0.0f);
    from += columns;
  }
}

void SparseTable::CopyWeights(uint32_t at, float* out) const {
  if (!store_.brief(at)) return CopyRow(store_.Row(at), dim_, out);
  std::fill(std::copy_n(store_.Row(at), accessor_.columns_at_first(), out), out + dim_, 0.0f);
}

Status SparseTable::Pull(std::span<const uint64_t> ids, bool previous, float* out) {
  if (tiers_ == nullptr) {
    Gather(ids, out);
  } else {
    // Memory may exceed its limit by one group of rows, which has at least this size.
    constexpr size_t kFewest = 64;
    const size_t group = std::clamp<size_t>(tiers_->rows_max() / 8, kFewest, RowTiers::kGroup);
    for (size_t begin = 0; begin < ids.size(); begin += group) {
      const std::span some = ids.subspan(begin, std::min(group, ids.size() - begin));
      TD_RETURN_IF_ERROR(Prepare(some));
      Gather(some, out + begin * static_cast<size_t>(dim_));
    }
  }
  if (previous) OverwritePrevious(ids, out);
  return OkStatus();
}

void SparseTable::Gather(std::span<const uint64_t> ids, float* out) {
  PullLookupCache::Pull large;
  PullLookupCache::Pull& pull = ids.size() <= PullLookupCache::kRowsMax ? recent_.Add() : large;
  pull.ids.assign(ids.begin(), ids.end());
  pull.at.resize(ids.size());
  pull.fresh.clear();
  pull.moves = store_.moves();
  pull.rows = store_.size();
  const auto dim = static_cast<size_t>(dim_);
  InParts(ids.size(), [&](int, size_t from, size_t to) {
    std::vector<float> scratch;
    for (size_t begin = from; begin < to; begin += kPullGroup) {
      const size_t end = std::min(begin + kPullGroup, to);
      store_.Find(ids.subspan(begin, end - begin), pull.at.data() + begin);
      std::array<size_t, kPullGroup> absent;
      size_t count = 0;
      for (size_t i = begin; i < end; ++i) {
        if (pull.at[i] == RowStore::kNone) {
          absent[count++] = i;
        } else {
          CopyWeights(pull.at[i], out + i * dim);
          if (tiers_ != nullptr) tiers_->Touch(pull.at[i]);
        }
      }
      if (count != 0) FillAbsent(ids, std::span(absent).first(count), scratch, out);
    }
    return OkStatus();
  }).IgnoreError();
  // If rules admit rows, an absent row reads as zeros, which are not its initial values.
  if (spec_.rules.admits() || &pull == &large) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (pull.at[i] != RowStore::kNone) continue;
    pull.fresh.insert(pull.fresh.end(), out + i * dim, out + (i + 1) * dim);
  }
}

// Overwrites weights in `out`, which holds the current ones: rows that Begin removed or Apply
// changed get their previous weights.
void SparseTable::OverwritePrevious(std::span<const uint64_t> ids, float* out) const {
  for (size_t i = 0; i < ids.size(); ++i, out += dim_) {
    const auto removed = previous_removed_.find(ids[i]);
    if (removed != previous_removed_.end()) {
      std::copy_n(removed->second.data(), dim_, out);
      continue;
    }
    if (idle_ == UntouchedRowPolicy::kFade) {
      uint32_t at = RowStore::kNone;
      store_.Find({&ids[i], 1}, &at);
      const size_t begin = static_cast<size_t>(at) * static_cast<size_t>(dim_);
      if (at == RowStore::kNone || begin >= previous_.size()) continue;
      std::copy_n(previous_.data() + begin, dim_, out);
      continue;
    }
    const auto it = std::lower_bound(previous_ids_.begin(), previous_ids_.end(), ids[i]);
    if (it == previous_ids_.end() || *it != ids[i]) continue;
    std::copy_n(previous_.data() + (it - previous_ids_.begin()) * dim_, dim_, out);
  }
}

}  // namespace tandem::pserver
