// Metrics of each table of rows.
#pragma once

#include <vector>

#include "common/base/metrics.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {

// Sets the gauges of all tables. Not thread-safe.
class TableMetrics {
 public:
  // `metrics` must outlive this object.
  TableMetrics(Metrics& metrics, const SparseTables& tables);
  // Sets the gauges to the current values. REQUIRES: `tables` has the same tables as in the
  // constructor.
  void Show(const SparseTables& tables) const;

 private:
  struct Gauges {  // one gauge for each field of TableInfo
    Gauge &rows, &bytes, &waiting, &dropped, &removed, &extended, &cold, &fetched, &written,
        &read_seconds;
  };
  std::vector<Gauges> gauges_;  // by table: its gauges
};

}  // namespace tandem::pserver
