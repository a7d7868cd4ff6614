// The weights of rows before the last step of their table, for pulls of the version before it. Only
// rows that the step changed or removed are here.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pserver/state/values.h"
#include "pserver/tables/row_store.h"

namespace tandem::pserver {

// Each id has at most one entry that counts: that of KeepRemoved or Set is stronger than that of
// the step. Not thread-safe, except that threads may write separate parts of a buffer of the step.
class PreviousWeights {
 public:
  // Rows have `dim` weights. `rows`: the rows in memory; must outlive this.
  PreviousWeights(int64_t dim, const RowStore& rows) : dim_(dim), rows_(rows) {}

  // Begins a step and forgets the weights before the last one. `keep`: the weights before the new
  // step are kept.
  void Begin(bool keep);
  bool keeps() const { return keeps_; }
  // The buffer for the weights of `ids` (ascending) before the step: ids.size() * dim floats.
  float* OfIds(std::span<const uint64_t> ids);
  // The buffer for the weights of all rows of the store before the step, by row index. REQUIRES:
  // there are no brief rows.
  float* OfAllRows();
  // Keeps the weights of a row that the step removes. `weights`: the first `columns`, not aligned;
  // the others were 0.
  void KeepRemoved(uint64_t id, const void* weights, size_t columns);
  // Makes the entries independent of row indices. Call before a row of the store moves.
  void Pin();

  // Adds entries. REQUIRES: `rows` has dim values of each id.
  void Set(const RowValues& rows);
  // All entries, or those of `buckets`, as rows of table `variable`.
  RowValues Rows(const std::string& variable) const;
  RowValues Rows(const std::string& variable, std::span<const int> buckets) const;
  // Overwrites the weights of `ids` in `out` [ids, dim] that have an entry.
  void Overwrite(std::span<const uint64_t> ids, float* out) const;

 private:
  // The entry of the step for `id`, or null.
  const float* OfStep(uint64_t id) const;

  const int64_t dim_;
  const RowStore& rows_;
  bool keeps_ = false;
  bool by_index_ = false;  // step_ is by row index; otherwise by position in ids_
  uint64_t moves_ = 0;     // RowStore::moves() at OfAllRows
  std::vector<uint64_t> ids_;
  std::vector<float> step_;
  std::map<uint64_t, std::vector<float>> by_id_;  // entries of KeepRemoved and Set
};

}  // namespace tandem::pserver
