// Reads the weights of the rows of a table. An absent row reads as its initial values, which
// FillInitial derives from its id, or as zeros if rules admit rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/exec/initial_values.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/pull_lookup_cache.h"
#include "pserver/tables/row_parts.h"
#include "pserver/tables/table_row_set.h"

namespace tandem::pserver {

// Remembers the lookups of recent reads. Not thread-safe, except that threads may call the const
// functions together.
class RowReader {
 public:
  // `rows` and `parts` must outlive this.
  RowReader(const TableSpec& spec, TableRowSet& rows, const RowParts& parts);

  // Writes the weights of `ids`, which are in memory or absent, to `out` [ids, dim].
  void Gather(std::span<const uint64_t> ids, float* out);
  // The lookups of a recent Gather with these ids whose row indices are still valid; null: none.
  const PullLookupCache::Pull* Recent(std::span<const uint64_t> ids) const {
    return recent_.Find(ids, rows_.store().moves());
  }
  // Writes the weights of the row at index `at`.
  void CopyWeights(uint32_t at, float* out) const;
  // Writes the first `columns` initial weights of a row.
  void CopyInitial(uint64_t id, int64_t columns, float* weights) const;
  // Copies `dim` weights. Rows of whole cache lines are copied with a few moves instead of a call.
  static void CopyRow(const float* from, int64_t dim, float* to) {
    constexpr int64_t kLine = 16;  // floats
    if (dim % kLine != 0) return void(std::copy_n(from, dim, to));
    for (int64_t i = 0; i < dim; i += kLine) std::copy_n(from + i, kLine, to + i);
  }

 private:
  static constexpr size_t kGroup = 128;  // rows looked up together, then copied

  // Writes the values that absent rows read as. `positions` in `ids`: at most kGroup.
  void FillAbsent(std::span<const uint64_t> ids, std::span<const size_t> positions,
                  std::vector<float>& scratch, float* out) const;

  const bool admits_;  // rules admit rows
  const int64_t dim_;  // floats of the weights
  TableRowSet& rows_;
  const RowParts& parts_;
  const InitialValues initial_;
  PullLookupCache recent_;
};

}  // namespace tandem::pserver
