// Metrics of the tables of rows.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/metrics.h"
#include "pserver/tables/sparse_tables.h"

namespace tandem::pserver {

// Sets the gauges of all tables. Not thread-safe.
class TableMetrics {
 public:
  // `metrics` must outlive this object.
  TableMetrics(Metrics& metrics, const SparseTables& tables);
  // Sets the gauges to the current values. `event_time_ms`: the event time on which the rules of
  // the tables depend. REQUIRES: `tables` has the same tables as in the constructor.
  void Show(const SparseTables& tables, int64_t event_time_ms) const;

 private:
  struct Gauges {  // one gauge for each field of TableInfo
    Gauge &rows, &bytes, &waiting, &dropped, &removed, &extended, &cold, &fetched, &written,
        &read_seconds;
  };
  Gauge& event_time_;
  std::vector<Gauges> gauges_;  // by table: its gauges
};

}  // namespace tandem::pserver
