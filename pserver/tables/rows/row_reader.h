// Reads the weights of the rows of a table. An absent row reads as its initial values, which
// FillInitial derives from its id. If the rules can delay the creation of rows
// (TableRules::admits), an absent row reads as zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/exec/initial_values.h"
#include "pserver/state/shard_config.h"
#include "pserver/tables/rows/pull_lookup_cache.h"
#include "pserver/tables/rows/row_parts.h"
#include "pserver/tables/rows/table_row_set.h"

namespace tandem::pserver {

// Reads weights of rows and remembers the lookups of recent reads. Not thread-safe, except that
// several threads may call the const functions at the same time.
class RowReader {
 public:
  // `rows` and `parts` must outlive this object.
  RowReader(const TableSpec& spec, TableRowSet& rows, const RowParts& parts);

  // Writes the weights of `ids` to `out` [ids, dim]. Each row must be in memory or absent.
  void Gather(std::span<const uint64_t> ids, float* out);
  // Returns the lookups of a recent Gather with the same ids, if the row indices are still valid;
  // otherwise null.
  const PullLookupCache::Pull* Recent(std::span<const uint64_t> ids) const {
    return recent_.Find(ids, rows_.store().moves());
  }
  // Writes the weights of the row at index `at` to `out`.
  void CopyWeights(uint32_t at, float* out) const;
  // Writes the first `columns` initial weights of row `id`.
  void CopyInitial(uint64_t id, int64_t columns, float* weights) const;
  // Copies `dim` weights. If the weights fill whole cache lines, inlined copies of a line replace
  // the call of a copy function.
  static void CopyRow(const float* from, int64_t dim, float* to) {
    constexpr int64_t kLine = 16;  // floats in a cache line
    if (dim % kLine != 0) return void(std::copy_n(from, dim, to));
    for (int64_t i = 0; i < dim; i += kLine) std::copy_n(from + i, kLine, to + i);
  }

 private:
  static constexpr size_t kGroup = 128;  // number of rows that are looked up together, then copied

  // Writes the values of absent rows to `out`. `positions`: positions of the absent rows in `ids`,
  // at most kGroup.
  void FillAbsent(std::span<const uint64_t> ids, std::span<const size_t> positions,
                  std::vector<float>& scratch, float* out) const;

  const bool admits_;  // TableRules::admits() of the table
  const int64_t dim_;  // number of weights of a row
  TableRowSet& rows_;
  const RowParts& parts_;
  const exec::InitialValues initial_;
  PullLookupCache recent_;
};

}  // namespace tandem::pserver
