#include "pserver/service/call_metrics.h"

#include "common/base/clock.h"

namespace tandem::pserver {

CallMetrics::CallMetrics(Metrics& metrics) {
  const std::vector<double> bounds = {1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01,
                                      0.03, 0.1,  0.3,  1,    3,    10,   60};
  for (const rpc::PserverCallRow& row : rpc::PserverCallTable()) {
    const Metrics::Labels labels = {{"call", row.name}};
    calls_.push_back({metrics.GetHistogram("tandem_pserver_call_seconds",
                                           "Time from a call to its reply", bounds, labels),
                      metrics.GetCounter("tandem_pserver_call_errors_total",
                                         "Calls with an error as reply", labels)});
  }
}

CallMetrics::Finish CallMetrics::Begin(PserverCall call) {
  const OneCall& one = calls_[static_cast<size_t>(call)];
  return [&one, begin = SteadyNow()](const Status& status) {
    one.seconds.Observe(Seconds(SteadyNow() - begin));
    if (!status.ok()) one.errors.Add(1);
  };
}

}  // namespace tandem::pserver
