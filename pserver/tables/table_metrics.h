// What metrics say of each table of rows.
#pragma once

#include <vector>

#include "common/base/metrics.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem {

// Not thread-safe.
class TableMetrics {
 public:
  // `metrics` must outlive this.
  TableMetrics(Metrics& metrics, const SparseTables& tables);
  // REQUIRES: these tables, or others of the same names.
  void Show(const SparseTables& tables) const;

 private:
  struct Gauges {  // TableInfo's
    Gauge &rows, &bytes, &waiting, &dropped, &removed, &extended, &cold, &fetched, &written,
        &read_seconds;
  };
  std::vector<Gauges> gauges_;  // by table
};

}  // namespace tandem
