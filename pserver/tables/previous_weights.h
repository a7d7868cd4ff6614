// The weights that rows had before the last step of their table. A pull of the version before that
// step reads these weights. Only rows that the step changed or removed have an entry.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pserver/state/values.h"
#include "pserver/tables/rows/row_store.h"

namespace tandem::pserver {

// The previous weights of the rows of one table. If an id has two entries, the entry of KeepRemoved
// or Set takes precedence over the entry of OfIds or OfAllRows. Not thread-safe, except that
// threads may write different parts of a buffer that OfIds or OfAllRows returned.
class PreviousWeights {
 public:
  // `dim`: number of weights of a row. `rows`: the rows in memory, which must outlive this object.
  PreviousWeights(int64_t dim, const RowStore& rows) : dim_(dim), rows_(rows) {}

  // Begins a step and drops all entries. `keep`: whether this object stores the weights before the
  // step.
  void Begin(bool keep);
  bool keeps() const { return keeps_; }
  // Returns a buffer of ids.size() * dim floats. The caller writes into the buffer the weights that
  // the rows `ids` (ascending) had before the step.
  float* OfIds(std::span<const uint64_t> ids);
  // Returns a buffer of dim floats for each row in memory, by row index. The caller writes into the
  // buffer the weights before the step. REQUIRES: there are no brief rows.
  float* OfAllRows();
  // Stores the weights of a row that the step removes. `weights`: the first `columns` weights of
  // the row, not aligned; the other weights are 0.
  void KeepRemoved(uint64_t id, const void* weights, size_t columns);
  // Changes the entries of OfAllRows from row indices to row ids. The caller calls Pin before the
  // index of a row changes.
  void Pin();

  // Adds an entry for each row of `rows`. REQUIRES: `rows` has dim values for each id.
  void Set(const RowValues& rows);
  // Returns all entries, or only the entries of `buckets`. `variable`: name of the table in the
  // result.
  RowValues Rows(const std::string& variable) const;
  RowValues Rows(const std::string& variable, std::span<const int> buckets) const;
  // Writes the previous weights of `ids` to `out` [ids, dim]. Leaves `out` unchanged for ids
  // without an entry.
  void Overwrite(std::span<const uint64_t> ids, float* out) const;

 private:
  // Returns the weights of `id` in step_; null: step_ has no weights of `id`.
  const float* OfStep(uint64_t id) const;

  const int64_t dim_;
  const RowStore& rows_;
  bool keeps_ = false;
  bool by_index_ = false;  // true: step_ has the weights by row index; false: in the order of ids_
  uint64_t moves_ = 0;     // RowStore::moves() at the call of OfAllRows
  std::vector<uint64_t> ids_;
  std::vector<float> step_;
  std::map<uint64_t, std::vector<float>> by_id_;  // by id: entries of KeepRemoved and Set
};

}  // namespace tandem::pserver
