// Metrics of each table of rows.
#pragma once

#include <vector>

#include "common/base/metrics.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {

// Sets the gauges of tables. Not thread-safe.
class TableMetrics {
 public:
  // `metrics` must outlive this.
  TableMetrics(Metrics& metrics, const SparseTables& tables);
  // REQUIRES: `tables` has the same names as in the constructor.
  void Show(const SparseTables& tables) const;

 private:
  struct Gauges {  // the fields of TableInfo
    Gauge &rows, &bytes, &waiting, &dropped, &removed, &extended, &cold, &fetched, &written,
        &read_seconds;
  };
  std::vector<Gauges> gauges_;  // by table
};

}  // namespace tandem::pserver
