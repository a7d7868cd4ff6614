#include "pserver/tables/previous_weights.h"

#include <algorithm>
#include <bitset>
#include <cstring>

#include "common/base/require.h"
#include "common/tables/row_buckets.h"

namespace tandem::pserver {

void PreviousWeights::Begin(bool keep) {
  keeps_ = keep;
  by_index_ = false;
  ids_.clear();
  step_.clear();
  by_id_.clear();
}

float* PreviousWeights::OfIds(std::span<const uint64_t> ids) {
  TD_REQUIRE(keeps_ && std::ranges::is_sorted(ids));
  ids_.assign(ids.begin(), ids.end());
  step_.resize(ids.size() * static_cast<size_t>(dim_));
  return step_.data();
}

float* PreviousWeights::OfAllRows() {
  TD_REQUIRE(keeps_ && rows_.slabs(/*brief=*/true).size() == 0);
  by_index_ = true;
  moves_ = rows_.moves();
  step_.resize(rows_.size() * static_cast<size_t>(dim_));
  return step_.data();
}

void PreviousWeights::KeepRemoved(uint64_t id, const void* weights, size_t columns) {
  TD_REQUIRE(columns <= static_cast<size_t>(dim_));
  if (!keeps_) return;
  std::vector<float>& kept = by_id_[id];
  kept.assign(static_cast<size_t>(dim_), 0.0f);
  std::memcpy(kept.data(), weights, columns * sizeof(float));
}

void PreviousWeights::Pin() {
  if (!by_index_) return;
  const RowValues rows = Rows("");
  by_index_ = false;
  step_.clear();
  Set(rows);
}

void PreviousWeights::Set(const RowValues& rows) {
  TD_REQUIRE(rows.content.size() == rows.ids.size() * static_cast<size_t>(dim_));
  for (size_t i = 0; i < rows.ids.size(); ++i) {
    const float* const weights = rows.content.data() + i * static_cast<size_t>(dim_);
    by_id_[rows.ids[i]] = {weights, weights + dim_};
  }
}

RowValues PreviousWeights::Rows(const std::string& variable) const {
  TD_REQUIRE(!by_index_ || rows_.moves() == moves_);
  RowValues rows{.variable = variable};
  const auto add = [&](uint64_t id, const float* weights) {
    rows.ids.push_back(id);
    rows.content.insert(rows.content.end(), weights, weights + dim_);
  };
  for (const auto& [id, weights] : by_id_) add(id, weights.data());
  const size_t count = step_.size() / static_cast<size_t>(dim_);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t id = by_index_ ? rows_.Id(static_cast<uint32_t>(i)) : ids_[i];
    if (!by_id_.contains(id)) add(id, step_.data() + i * static_cast<size_t>(dim_));
  }
  return rows;
}

RowValues PreviousWeights::Rows(const std::string& variable, std::span<const int> buckets) const {
  std::bitset<kRowBuckets> wanted;
  for (const int bucket : buckets) wanted[static_cast<size_t>(bucket)] = true;
  const RowValues all = Rows(variable);
  RowValues rows{.variable = variable};
  for (size_t i = 0; i < all.ids.size(); ++i) {
    if (!wanted[static_cast<size_t>(RowBucket(all.ids[i]))]) continue;
    rows.ids.push_back(all.ids[i]);
    const float* const weights = all.content.data() + i * static_cast<size_t>(dim_);
    rows.content.insert(rows.content.end(), weights, weights + dim_);
  }
  return rows;
}

const float* PreviousWeights::OfStep(uint64_t id) const {
  size_t position = 0;
  if (by_index_) {
    uint32_t at = RowStore::kNone;
    rows_.Find({&id, 1}, &at);
    // A row has no entry if the row is absent, or if it was added after OfAllRows.
    if (at == RowStore::kNone || at * static_cast<size_t>(dim_) >= step_.size()) return nullptr;
    position = at;
  } else {
    const auto it = std::lower_bound(ids_.begin(), ids_.end(), id);
    if (it == ids_.end() || *it != id) return nullptr;
    position = static_cast<size_t>(it - ids_.begin());
  }
  return step_.data() + position * static_cast<size_t>(dim_);
}

void PreviousWeights::Overwrite(std::span<const uint64_t> ids, float* out) const {
  TD_REQUIRE(!by_index_ || rows_.moves() == moves_);
  for (size_t i = 0; i < ids.size(); ++i, out += dim_) {
    const auto kept = by_id_.find(ids[i]);
    const float* const weights = kept != by_id_.end() ? kept->second.data() : OfStep(ids[i]);
    if (weights != nullptr) std::copy_n(weights, dim_, out);
  }
}

}  // namespace tandem::pserver
