// Those rows of knob_bench_table.cc that are about parameter servers.
#include "deploy/cli/knob_bench.h"

namespace tandem::deploy {
namespace {

constexpr BenchLaunch kPs = BenchLaunch::kPserver;

using Rows = std::vector<KnobBench>;

Rows PserverRows() {
  return {
      {.knob = "a_sync",
       .changed = "true",
       .counter = "",
       .launch = kPs,
       .tolerance = kNotComparable},
      {.knob = "a_sync_configs.k_steps",
       .changed = "8",
       .counter = "ps.pushes",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.max_merge_var_num",
       .changed = "8",
       .counter = "ps.pushes",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.send_queue_size",
       .changed = "1",
       .counter = "",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.independent_recv_thread",
       .changed = "true",
       .counter = "ps.pulls",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.min_send_grad_num_before_recv",
       .changed = "8",
       .counter = "ps.pulls",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.thread_pool_size",
       .changed = "4",
       .counter = "",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
  };
}

Rows PserverRuleRows() {
  return {
      {.knob = "a_sync_configs.send_wait_times",
       .changed = "0",
       .counter = "ps.pushes",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.max_merge_var_num=8"}},
      {.knob = "a_sync_configs.lr_decay_steps",
       .changed = "100",
       .counter = "loss",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "optimizer.schedule.kind=EXPONENTIAL"}},
      {.knob = "a_sync_configs.half_async",
       .changed = "true",
       .counter = "ps.pulls",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.min_send_grad_num_before_recv=4"}},
      {.knob = "a_sync_configs.max_staleness",
       .changed = "1",
       .counter = "ps.pulls",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.min_send_grad_num_before_recv=4"}},
      {.knob = "a_sync_configs.is_sgd_optimizer",
       .changed = "false",
       .counter = "loss",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.max_merge_var_num=8", "optimizer.type=sgd"}},
  };
}

}  // namespace

std::vector<KnobBench> PserverKnobBenches() {
  Rows rows = PserverRows();
  const Rows rules = PserverRuleRows();
  rows.insert(rows.end(), rules.begin(), rules.end());
  return rows;
}

}  // namespace tandem::deploy
