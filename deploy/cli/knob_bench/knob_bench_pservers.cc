// The rows of knob_bench_table.cc about parameter servers.
#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {
namespace {

constexpr BenchLaunch kPserver = BenchLaunch::kPserver;

using Rows = std::vector<KnobBench>;

Rows PserverRows() {
  return {
      {.knob = "a_sync",
       .changed = "true",
       .counter = "",
       .launch = kPserver,
       .tolerance = kNotComparable},
      {.knob = "a_sync_configs.k_steps",
       .changed = "8",
       .counter = "ps.pushes",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "localsgd_configs.quorum",
       .changed = "1",
       .counter = "",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "localsgd=true", "localsgd_configs.k_steps=8"}},
      {.knob = "a_sync_configs.max_merge_var_num",
       .changed = "8",
       .counter = "ps.pushes",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.send_queue_size",
       .changed = "1",
       .counter = "",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.independent_recv_thread",
       .changed = "true",
       .counter = "ps.pulls",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.min_send_grad_num_before_recv",
       .changed = "8",
       .counter = "ps.pulls",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
      {.knob = "a_sync_configs.thread_pool_size",
       .changed = "4",
       .counter = "",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true"}},
  };
}

Rows PserverRuleRows() {
  return {
      {.knob = "a_sync_configs.send_wait_times",
       .changed = "0",
       .counter = "ps.pushes",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.max_merge_var_num=8"}},
      {.knob = "a_sync_configs.runtime_split_send_recv",
       .changed = "true",
       .counter = "ps.calls",
       .network = "mlp",
       .launch = kPserver},
      {.knob = "a_sync_configs.lr_decay_steps",
       .changed = "100",
       .counter = "loss",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "optimizer.schedule.kind=EXPONENTIAL"}},
      {.knob = "a_sync_configs.half_async",
       .changed = "true",
       .counter = "ps.pulls",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.min_send_grad_num_before_recv=4"}},
      {.knob = "a_sync_configs.enable_dc_asgd",
       .changed = "true",
       .counter = "loss",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "optimizer.type=sgd"}},
      {.knob = "a_sync_configs.dc_asgd_lambda",
       .changed = "1",
       .counter = "loss",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "enable_dc_asgd=true", "optimizer.type=sgd"}},
      {.knob = "a_sync_configs.max_staleness",
       .changed = "1",
       .counter = "ps.pulls",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.min_send_grad_num_before_recv=4"}},
      {.knob = "a_sync_configs.is_sgd_optimizer",
       .changed = "false",
       .counter = "loss",
       .launch = kPserver,
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

std::vector<KnobBench> PserverFlagBenches() {
  return {
      {.knob = "runtime_flags.rpc_send_thread_num",
       .changed = "1",
       .counter = "",
       .network = "mlp",
       .launch = kPserver,
       // The threads of this knob handle only pushes of more than 1 MiB. Without slices, pushes are
       // that large.
       .with = {"pserver_transport=Grpc", "slice_var_up=false"}},
      {.knob = "runtime_flags.rpc_get_thread_num",
       .changed = "1",
       .counter = "",
       .network = "mlp",
       .launch = kPserver,
       .with = {"pserver_transport=Grpc"}},
      {.knob = "runtime_flags.pserver_push_dense_merge_limit",
       .changed = "2",
       .counter = "ps.pushes",
       .launch = kPserver,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "a_sync_configs.max_merge_var_num=8"}},
      {.knob = "runtime_flags.nonfinite_gradients",
       .changed = "Apply",
       .counter = "",
       .network = "mlp",
       .launch = kPserver},
  };
}

}  // namespace tandem::deploy
