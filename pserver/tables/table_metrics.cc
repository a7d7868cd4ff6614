#include "pserver/tables/table_metrics.h"

#include <string>

#include "common/base/require.h"

namespace tandem::pserver {

TableMetrics::TableMetrics(Metrics& metrics, const SparseTables& tables)
    : event_time_(
          metrics.GetGauge("tandem_pserver_event_timestamp_seconds",
                           "Highest event time of applied pushes, in Unix time; 0: unknown")) {
  for (size_t i = 0; i < tables.size(); ++i) {
    const Metrics::Labels labels = {{"table", tables.table(static_cast<int>(i)).spec().variable}};
    const auto gauge = [&](const char* what, const char* help) -> Gauge& {
      return metrics.GetGauge(std::string("tandem_pserver_table_") + what, help, labels);
    };
    gauges_.push_back(
        {.rows = gauge("rows", "Number of rows"),
         .bytes = gauge("row_bytes", "Memory for rows"),
         .waiting = gauge("waiting_rows", "Rows that are not admitted yet"),
         .dropped = gauge("dropped_gradients", "Gradients of rows that were not admitted"),
         .removed = gauge("removed_rows", "Rows that the rules removed"),
         .extended = gauge("extended_rows", "Rows with all their values"),
         .cold = gauge("cold_rows", "Rows outside memory"),
         .fetched = gauge("fetched_rows", "Rows that were read back into memory"),
         .written = gauge("written_rows", "Rows that were written to disk"),
         .read_seconds = gauge("read_seconds", "Time spent reading rows back into memory")});
  }
}

void TableMetrics::Show(const SparseTables& tables, int64_t event_time_ms) const {
  TD_REQUIRE(gauges_.size() == tables.size());
  event_time_.Set(static_cast<double>(event_time_ms) / 1000);
  for (size_t i = 0; i < gauges_.size(); ++i) {
    const TableInfo info = tables.table(static_cast<int>(i)).Info();
    const Gauges& gauges = gauges_[i];
    gauges.rows.Set(static_cast<double>(info.rows));
    gauges.bytes.Set(static_cast<double>(info.bytes));
    gauges.waiting.Set(static_cast<double>(info.waiting));
    gauges.dropped.Set(static_cast<double>(info.dropped));
    gauges.removed.Set(static_cast<double>(info.removed));
    gauges.extended.Set(static_cast<double>(info.extended));
    gauges.cold.Set(static_cast<double>(info.cold_rows));
    gauges.fetched.Set(static_cast<double>(info.fetched));
    gauges.written.Set(static_cast<double>(info.written));
    gauges.read_seconds.Set(info.read_seconds);
  }
}

}  // namespace tandem::pserver
