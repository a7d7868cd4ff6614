// The rows of a table, as a program that applies all changes of a follower has them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/tables/row_buckets.h"
#include "pserver/client/follow/table_follower.h"

namespace tandem {

using RowMap = std::map<uint64_t, std::vector<float>>;

struct FollowedRows {
  RowMap rows;
  size_t received = 0;   // number of rows in all changes
  size_t replaced = 0;   // number of row buckets that were sent whole
  bool current = false;  // a change said that the rows are current

  void Apply(const ps::TableChange& change) {
    const std::set<int> whole(change.replaced.begin(), change.replaced.end());
    std::erase_if(rows, [&](const auto& row) { return whole.contains(RowBucket(row.first)); });
    for (size_t i = 0; i < change.ids.size(); ++i) {
      const float* const values = change.values.data() + i * static_cast<size_t>(change.dim);
      rows[change.ids[i]].assign(values, values + change.dim);
    }
    for (const uint64_t id : change.removed) rows.erase(id);
    received += change.ids.size();
    replaced += whole.size();
    current |= change.current;
  }
};

}  // namespace tandem
