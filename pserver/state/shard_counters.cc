#include "pserver/state/shard_counters.h"

#include <vector>

namespace tandem::pserver {
namespace {

std::vector<double> WaitBounds() { return {1e-4, 1e-3, 1e-2, 0.1, 1, 10, 60}; }
std::vector<double> StalenessBounds() { return {0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 1024}; }
std::vector<double> UpdateBounds() { return {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1}; }

}  // namespace

ShardCounters::ShardCounters(Metrics& m)
    : pushes(m.GetCounter("tandem_pserver_pushes_total", "Accepted push messages")),
      push_bytes(m.GetCounter("tandem_pserver_push_bytes_total", "Bytes of accepted gradients")),
      duplicates(m.GetCounter("tandem_pserver_push_duplicates_total",
                              "Repeated pushes, which were not applied again")),
      refused(m.GetCounter("tandem_pserver_push_refused_total", "Pushes refused")),
      pulls(m.GetCounter("tandem_pserver_pulls_total", "Pulls answered")),
      pull_bytes(m.GetCounter("tandem_pserver_pull_bytes_total", "Bytes of sent parameters")),
      updates(m.GetCounter("tandem_pserver_updates_total", "Versions made")),
      rejected(m.GetCounter("tandem_pserver_nonfinite_pushes_total", "Pushes with NaN or infinity",
                            {{"outcome", "rejected"}})),
      skipped(m.GetCounter("tandem_pserver_nonfinite_pushes_total", "Pushes with NaN or infinity",
                           {{"outcome", "skipped"}})),
      lost_pushes(m.GetCounter("tandem_pserver_lost_pushes_total",
                               "Acknowledged pushes that were lost with a server")),
      missing_pushes(
          m.GetGauge({"tandem_pserver_pushes_awaiting_replay", "tandem_pserver_owed_pushes"},
                     "Pushes that a restarted server waits for")),
      barrier_wait(m.GetHistogram("tandem_pserver_barrier_wait_seconds",
                                  "Time a call waited in a barrier", WaitBounds())),
      pull_wait(m.GetHistogram("tandem_pserver_pull_wait_seconds",
                               "Time a pull waited for its version", WaitBounds())),
      update_time(m.GetHistogram("tandem_pserver_update_seconds",
                                 "Time to reduce and apply one step or push", UpdateBounds())),
      staleness(m.GetHistogram("tandem_pserver_staleness_updates",
                               "Updates between a trainer's last pull and its push",
                               StalenessBounds())),
      hold(m.GetHistogram({"tandem_pserver_push_pause_seconds", "tandem_pserver_hold_seconds"},
                          "Time without new pushes, for a snapshot of all servers", WaitBounds())) {
}

}  // namespace tandem::pserver
