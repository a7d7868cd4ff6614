#include "pserver/tables/rows/row_reader.h"

#include <array>

#include "common/base/require.h"

namespace tandem::pserver {

RowReader::RowReader(const TableSpec& spec, TableRowSet& rows, const RowParts& parts)
    : admits_(spec.rules.admits()),
      dim_(spec.dim()),
      rows_(rows),
      parts_(parts),
      initial_(spec.variable, spec.init, spec.shape, spec.seed) {}

void RowReader::Gather(std::span<const uint64_t> ids, float* out) {
  const RowStore& store = rows_.store();
  RowTiers* const tiers = rows_.tiers();
  PullLookupCache::Pull large;
  PullLookupCache::Pull& pull = ids.size() <= PullLookupCache::kRowsMax ? recent_.Add() : large;
  pull.ids.assign(ids.begin(), ids.end());
  pull.at.resize(ids.size());
  pull.fresh.clear();
  pull.moves = store.moves();
  pull.rows = store.size();
  const auto dim = static_cast<size_t>(dim_);
  parts_
      .Run(ids.size(),
           [&](int, size_t from, size_t to) {
             std::vector<float> scratch;
             for (size_t begin = from; begin < to; begin += kGroup) {
               const size_t end = std::min(begin + kGroup, to);
               store.Find(ids.subspan(begin, end - begin), pull.at.data() + begin);
               std::array<size_t, kGroup> absent;
               size_t count = 0;
               for (size_t i = begin; i < end; ++i) {
                 if (pull.at[i] == RowStore::kNone) {
                   absent[count++] = i;
                 } else {
                   CopyWeights(pull.at[i], out + i * dim);
                   if (tiers != nullptr) tiers->Touch(pull.at[i]);
                 }
               }
               if (count != 0) FillAbsent(ids, std::span(absent).first(count), scratch, out);
             }
             return OkStatus();
           })
      .IgnoreError();
  // If `admits_` is true, absent rows read as zeros, not as their initial values. Their values are
  // therefore not cached.
  if (admits_ || &pull == &large) return;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (pull.at[i] != RowStore::kNone) continue;
    pull.fresh.insert(pull.fresh.end(), out + i * dim, out + (i + 1) * dim);
  }
}

void RowReader::CopyInitial(uint64_t id, int64_t columns, float* weights) const {
  initial_.Fill(static_cast<int64_t>(id) * dim_, {weights, static_cast<size_t>(columns)});
}

void RowReader::CopyWeights(uint32_t at, float* out) const {
  const RowStore& store = rows_.store();
  if (!store.brief(at)) return CopyRow(store.Row(at), dim_, out);
  std::fill(std::copy_n(store.Row(at), rows_.accessor().columns_at_first(), out), out + dim_, 0.0f);
}

void RowReader::FillAbsent(std::span<const uint64_t> ids, std::span<const size_t> positions,
                           std::vector<float>& scratch, float* out) const {
  TD_REQUIRE(positions.size() <= kGroup);
  const int64_t columns = admits_ ? 0 : rows_.accessor().columns_at_first();
  std::array<uint64_t, kGroup> offsets;
  for (size_t i = 0; i < positions.size(); ++i) {
    offsets[i] = ids[positions[i]] * static_cast<uint64_t>(dim_);
  }
  scratch.resize(positions.size() * static_cast<size_t>(columns));
  initial_.FillRows(std::span(offsets).first(positions.size()), columns, scratch.data());
  const float* from = scratch.data();
  for (const size_t position : positions) {
    float* const row = out + position * static_cast<size_t>(dim_);
    CopyRow(from, columns, row);
    std::fill(row + columns, row + dim_, 0.0f);
    from += columns;
  }
}

}  // namespace tandem::pserver
