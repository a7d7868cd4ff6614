// The rows of `tandem bench knobs`, in the order of proto/strategy.proto.
#include <string_view>
#include <utility>

#include "deploy/cli/knob_bench/knob_bench.h"

namespace tandem::deploy {
namespace {

constexpr BenchLaunch kTwo = BenchLaunch::kTwoRanks, kFour = BenchLaunch::kFourRanks,
                      kPs = BenchLaunch::kPserver;

using Rows = std::vector<KnobBench>;

Rows CollectiveRows() {
  return {
      {.knob = "auto", .changed = "true", .counter = "", .tolerance = kNotComparable},
      {.knob = "sync_nccl_allreduce",
       .changed = "false",
       .counter = "comm_at_once",
       .launch = kTwo,
       .with = {"nccl_comm_num=3", "fuse_all_reduce_ops=false"}},
      {.knob = "nccl_comm_num",
       .changed = "3",
       .counter = "communicators",
       .launch = kTwo,
       .with = {"sync_nccl_allreduce=false", "fuse_all_reduce_ops=false"}},
      {.knob = "use_hierarchical_allreduce",
       .changed = "true",
       .counter = "",
       .launch = kFour,
       .tolerance = kOtherOrder,
       .also = {"hierarchical_allreduce_inter_nranks=2"}},
      {.knob = "hierarchical_allreduce_inter_nranks",
       .changed = "2",
       .counter = "",
       .launch = kFour,
       .tolerance = kOtherOrder,
       .with = {"use_hierarchical_allreduce=true"},
       .from = "4"},
      {.knob = "hierarchical_allreduce_form",
       .changed = "Leaders",
       .counter = "",
       .launch = kFour,
       .tolerance = kOtherOrder,
       .with = {"use_hierarchical_allreduce=true", "hierarchical_allreduce_inter_nranks=2"}},
      {.knob = "collective_transport", .changed = "Tcp", .counter = "", .launch = kTwo},
      {.knob = "allreduce_choice",
       .changed = "ByModel",
       .counter = "",
       .launch = kTwo,
       .with = {"collective_transport=Tcp"}},
      {.knob = "sync_batch_norm",
       .changed = "true",
       .counter = "comm",
       .network = "mobilenet",
       .launch = kTwo,
       .tolerance = kNotComparable},
      {.knob = "fuse_all_reduce_ops", .changed = "false", .counter = "comm", .launch = kTwo},
      {.knob = "fuse_grad_size_in_MB", .changed = "0.05", .counter = "comm", .launch = kTwo},
      {.knob = "fuse_grad_size_in_TFLOPS", .changed = "2", .counter = "comm", .launch = kTwo},
      {.knob = "last_comm_group_size_MB", .changed = "0.02", .counter = "comm", .launch = kTwo},
  };
}

Rows MethodRows() {
  return {
      {.knob = "cudnn_exhaustive_search",
       .changed = "true",
       .counter = "",
       .network = "residual_cnn",
       .tolerance = kOtherOrder,
       .with = {"conv_search_cache="}},
      {.knob = "recompute",
       .changed = "true",
       .counter = "arena_bytes",
       .network = "residual_cnn",
       .also = {"recompute_configs.checkpoints=relu_2.out"}},
      {.knob = "localsgd",
       .changed = "true",
       .counter = "comm",
       .launch = kTwo,
       .tolerance = kNotComparable,
       .also = {"localsgd_configs.k_steps=4"}},
      {.knob = "adaptive_localsgd",
       .changed = "true",
       .counter = "comm",
       .launch = kTwo,
       .tolerance = kNotComparable,
       .also = {"adaptive_localsgd_configs.init_k_steps=8"}},
      {.knob = "dgc",
       .changed = "true",
       .counter = "comm_bytes",
       .network = "mlp",
       .launch = kTwo,
       .tolerance = kNotComparable},
      {.knob = "gradient_merge",
       .changed = "true",
       .counter = "comm",
       .launch = kTwo,
       .tolerance = kNotComparable,
       .also = {"gradient_merge_configs.k_steps=4"}},
      {.knob = "lars",
       .changed = "true",
       .counter = "ops.lars_momentum",
       .tolerance = kNotComparable},
      {.knob = "lamb",
       .changed = "true",
       .counter = "ops.lamb",
       .tolerance = kNotComparable,
       .with = {"optimizer.type=adam"}},
      {.knob = "fp16_allreduce",
       .changed = "true",
       .counter = "comm_bytes",
       .launch = kTwo,
       .tolerance = kHalfPrecision},
      {.knob = "deterministic",
       .changed = "true",
       .counter = "arena_bytes",
       // Two processes, because the replicas (cpu_num) of one process would share its kernel
       // threads.
       .launch = kTwo,
       .tolerance = kOtherOrder},
      {.knob = "logical_shards",
       .changed = "8",
       .counter = "arena_bytes",
       .launch = kTwo,
       .tolerance = kOtherOrder,
       .with = {"deterministic=true"}},
      {.knob = "batch_merge_repeats",
       .changed = "4",
       .counter = "arena_bytes",
       .tolerance = kOtherOrder},
  };
}

Rows PipelineRows() {
  return {
      {.knob = "pipeline",
       .changed = "true",
       .counter = "pipeline.sections",
       .network = "mlp",
       .launch = kTwo,
       .tolerance = kOtherOrder,
       .also = {"pipeline_configs.micro_batch=8"}},
      {.knob = "pipeline_configs.micro_batch",
       .changed = "8",
       .counter = "pipeline.bubble",
       .network = "mlp",
       .launch = kTwo,
       .tolerance = kOtherOrder,
       .with = {"pipeline=true"}},
  };
}

Rows BuildRows() {
  return {
      {.knob = "build_strategy.reduce_strategy",
       .changed = "Reduce",
       .counter = "ops.momentum",
       .launch = kTwo},
      {.knob = "build_strategy.gradient_scale_strategy",
       .changed = "One",
       .counter = "loss",
       .launch = kTwo,
       .tolerance = kNotComparable},
      {.knob = "build_strategy.enable_sequential_execution",
       .changed = "true",
       .counter = "plan.threads",
       .with = {"num_threads=2"}},
      {.knob = "build_strategy.enable_backward_optimizer_op_deps",
       .changed = "false",
       .counter = "arena_bytes",
       .network = "mlp"},
      {.knob = "build_strategy.fuse_elewise_add_act_ops",
       .changed = "true",
       .counter = "passes.fuse_elewise_add_act_ops",
       .network = "residual_cnn"},
      {.knob = "build_strategy.fuse_bn_act_ops",
       .changed = "true",
       .counter = "passes.fuse_bn_act_ops",
       .network = "mobilenet"},
      {.knob = "build_strategy.fuse_bn_add_act_ops",
       .changed = "false",
       .counter = "passes.fuse_bn_add_act_ops",
       .network = "resnet18"},
      {.knob = "build_strategy.fuse_relu_depthwise_conv",
       .changed = "true",
       .counter = "passes.fuse_relu_depthwise_conv",
       .network = "mobilenet"},
      {.knob = "build_strategy.fuse_broadcast_ops",
       .changed = "true",
       .counter = "comm.c_broadcast",
       .launch = kTwo,
       .with = {"reduce_strategy=Reduce"}},
      {.knob = "build_strategy.fuse_all_optimizer_ops", .changed = "true", .counter = "ops"},
      {.knob = "build_strategy.enable_inplace", .changed = "true", .counter = "arena_bytes"},
      {.knob = "build_strategy.memory_optimize",
       .changed = "Off",
       .counter = "arena_bytes",
       .with = {"eager_delete_tensor_gb=-1"}},
      {.knob = "build_strategy.enable_auto_fusion",
       .changed = "true",
       .counter = "passes.enable_auto_fusion",
       .network = "resnet18",
       .with = {"amp=true"}},
      {.knob = "build_strategy.mkldnn_enabled_op_types",
       .changed = "conv2d",
       .counter = "plan.onednn",
       .network = "residual_cnn",
       .tolerance = kOtherOrder},
      {.knob = "build_strategy.enable_addto",
       .changed = "true",
       .counter = "passes.enable_addto",
       .network = "residual_cnn"},
  };
}

Rows ExecutionRows() {
  return {
      {.knob = "execution_strategy.num_threads", .changed = "2", .counter = "plan.threads"},
      {.knob = "execution_strategy.num_iteration_per_drop_scope",
       .changed = "1",
       .counter = "drops"},
      {.knob = "execution_strategy.num_iteration_per_run", .changed = "8", .counter = "runs"},
      {.knob = "execution_strategy.use_thread_barrier",
       .changed = "true",
       .counter = "",
       .launch = kPs,
       .tolerance = kNotComparable,
       .with = {"a_sync=true", "cpu_num=2"}},
      {.knob = "execution_strategy.cpu_num",
       .changed = "2",
       .counter = "comm",
       .tolerance = kNotComparable},
  };
}

Rows AmpRows() {
  // With kHigh, gradients overflow in the first steps, until the loss scale has decreased.
  static constexpr char kHigh[] = "amp_configs.init_loss_scaling=1e12", kF16[] = "amp_dtype=f16";
  return {
      {.knob = "amp",
       .changed = "true",
       .counter = "ops.16bit",
       .network = "residual_cnn",
       .tolerance = kHalfPrecision},
      {.knob = "amp_configs.init_loss_scaling",
       .changed = "1024",
       .counter = "loss_scaling",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
      {.knob = "amp_configs.incr_every_n_steps",
       .changed = "5",
       .counter = "loss_scaling",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
      {.knob = "amp_configs.decr_every_n_nan_or_inf",
       .changed = "1",
       .counter = "loss_scaling",
       .tolerance = kNotComparable,
       .with = {"amp=true", kF16, kHigh},
       .steps = 60},
      {.knob = "amp_configs.incr_ratio",
       .changed = "4",
       .counter = "loss_scaling",
       .tolerance = kHalfPrecision,
       .with = {"amp=true", "amp_configs.incr_every_n_steps=5"},
       .steps = 40},
      {.knob = "amp_configs.decr_ratio",
       .changed = "0.5",
       .counter = "loss_scaling",
       .tolerance = kNotComparable,
       .with = {"amp=true", kF16, kHigh},
       .steps = 60},
      {.knob = "amp_configs.use_dynamic_loss_scaling",
       .changed = "false",
       .counter = "ops.update_loss_scaling",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
      {.knob = "amp_configs.custom_white_list",
       .changed = "reshape",
       .counter = "ops.16bit",
       .network = "mlp",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
      {.knob = "amp_configs.custom_black_list",
       .changed = "conv2d",
       .counter = "ops.16bit",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
      {.knob = "amp_configs.custom_black_varnames",
       .changed = "conv_0.w",
       .counter = "ops.16bit",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
      {.knob = "amp_configs.amp_dtype",
       .changed = "f16",
       .counter = "",
       .tolerance = kHalfPrecision,
       .with = {"amp=true"}},
  };
}

Rows MethodConfigRows() {
  return {
      {.knob = "recompute_configs.checkpoints",
       .changed = "relu_2.out",
       .counter = "arena_bytes",
       .network = "residual_cnn",
       .with = {"recompute=true"}},
      {.knob = "localsgd_configs.k_steps",
       .changed = "4",
       .counter = "comm",
       .launch = kTwo,
       .tolerance = kNotComparable,
       .with = {"localsgd=true"}},
      {.knob = "localsgd_configs.begin_step",
       .changed = "20",
       .counter = "comm",
       .launch = kTwo,
       .tolerance = kNotComparable,
       .with = {"localsgd=true", "localsgd_configs.k_steps=4"}},
  };
}

// The outer optimizer and the fragments of localsgd. `counter`: what the knob changes.
Rows OuterRows() {
  const auto row = [](const char* knob, const char* changed, const char* counter,
                      std::vector<const char*> with) {
    std::vector<const char*> all = {"localsgd=true", "localsgd_configs.k_steps=8"};
    all.insert(all.end(), with.begin(), with.end());
    return KnobBench{.knob = knob,
                     .changed = changed,
                     .counter = counter,
                     .launch = kTwo,
                     .tolerance = kNotComparable,
                     .with = std::move(all)};
  };
  static constexpr char kOuter[] = "localsgd_configs.outer_optimizer=nesterov";
  return {
      row("localsgd_configs.outer_optimizer", "nesterov", "ops.momentum", {}),
      row("localsgd_configs.outer_learning_rate", "0.5", "", {kOuter}),
      row("localsgd_configs.outer_momentum", "0.5", "", {kOuter}),
      row("localsgd_configs.fragments", "4", "comm", {kOuter}),
      row("localsgd_configs.delay", "2", "comm.c_allreduce_end", {kOuter}),
      row("localsgd_configs.merge_factor", "0.5", "ops.scale", {kOuter}),
  };
}

KnobBench LessSent(const char* knob, const char* changed, std::vector<const char*> with) {
  const bool dgc = std::string_view(knob).starts_with("dgc");
  return {.knob = knob,
          .changed = changed,
          .counter = dgc ? "comm_bytes" : "comm",
          .network = dgc ? "mlp" : "lenet",
          .launch = kTwo,
          .tolerance = kNotComparable,
          .with = std::move(with)};
}

Rows LessSentRows() {
  static constexpr char kAdaptive[] = "adaptive_localsgd=true", kDgc[] = "dgc=true";
  return {
      LessSent("adaptive_localsgd_configs.init_k_steps", "8", {kAdaptive}),
      LessSent("adaptive_localsgd_configs.begin_step", "20",
               {kAdaptive, "adaptive_localsgd_configs.init_k_steps=8"}),
      LessSent("dgc_configs.rampup_begin_step", "100", {kDgc}),
      LessSent("dgc_configs.rampup_step", "100",
               {kDgc, "dgc_configs.sparsity=0.75,0.9375,0.984375,0.996,0.999"}),
      LessSent("dgc_configs.sparsity", "0.99", {kDgc}),
  };
}

Rows UpdateConfigRows() {
  static constexpr char kLars[] = "lars=true", kLamb[] = "lamb=true",
                        kAdam[] = "optimizer.type=adam";
  return {
      {.knob = "gradient_merge_configs.k_steps",
       .changed = "4",
       .counter = "comm",
       .launch = kTwo,
       .tolerance = kNotComparable,
       .with = {"gradient_merge=true"}},
      {.knob = "gradient_merge_configs.avg",
       .changed = "false",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {"gradient_merge=true", "gradient_merge_configs.k_steps=4"}},
      {.knob = "lars_configs.lars_coeff",
       .changed = "0.01",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {kLars}},
      {.knob = "lars_configs.lars_weight_decay",
       .changed = "0.01",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {kLars}},
      {.knob = "lars_configs.epsilon",
       .changed = "0.1",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {kLars}},
      {.knob = "lars_configs.exclude_from_weight_decay",
       .changed = ".w",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {kLars, "lars_configs.lars_weight_decay=0.1"}},
      {.knob = "lamb_configs.lamb_weight_decay",
       .changed = "0.1",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {kLamb, kAdam}},
      {.knob = "lamb_configs.exclude_from_weight_decay",
       .changed = ".w",
       .counter = "loss",
       .tolerance = kNotComparable,
       .with = {kLamb, kAdam, "lamb_configs.lamb_weight_decay=0.1"}},
  };
}

Rows RuntimeRows() {
  return {
      {.knob = "runtime_flags.slice_var_up",
       .changed = "false",
       .counter = "ps.slices",
       .launch = kPs},
      {.knob = "runtime_flags.min_block_size",
       .changed = "1024",
       .counter = "ps.slices",
       .launch = kPs},
      {.knob = "runtime_flags.dispatcher",
       .changed = "SizeBalanced",
       .counter = "ps.largest_share",
       .launch = kPs,
       .with = {"slice_var_up=false"}},
      {.knob = "runtime_flags.enable_rpc_profiler",
       .changed = "true",
       .counter = "",
       .launch = kPs,
       .with = {"profile.dir={dir}/profile"}},
      {.knob = "runtime_flags.pserver_transport",
       .changed = "Grpc",
       .counter = "ps.lane_calls",
       .launch = kPs},
      {.knob = "runtime_flags.eager_delete_tensor_gb",
       .changed = "-1",
       .counter = "arena_bytes",
       .with = {"memory_optimize=Off"}},
      {.knob = "runtime_flags.local_exe_sub_scope_limit", .changed = "1", .counter = "drops"},
      {.knob = "runtime_flags.use_mkldnn",
       .changed = "false",
       .counter = "plan.onednn",
       .network = "residual_cnn",
       .tolerance = kOtherOrder,
       .steps = 10},
      {.knob = "runtime_flags.use_double_buffer", .changed = "false", .counter = ""},
      {.knob = "runtime_flags.benchmark", .changed = "true", .counter = ""},
      {.knob = "runtime_flags.check_nan_inf", .changed = "true", .counter = ""},
  };
}

Rows ShardingRows() {
  return {
      {.knob = "sharding",
       .changed = "true",
       .counter = "held_bytes",
       .launch = kTwo,
       .with = {"sharding_configs.fuse_broadcast_MB=1"}},
      {.knob = "sharding_configs.fuse_broadcast_MB",
       .changed = "0",
       .counter = "comm.c_broadcast_params",
       .launch = kTwo,
       .with = {"sharding=true"}},
      {.knob = "sharding_configs.hybrid_dp",
       .changed = "true",
       .counter = "held_bytes",
       .launch = kFour,
       .tolerance = kOtherOrder,
       .with = {"sharding=true", "sharding_configs.sharding_group_size=2"}},
      {.knob = "sharding_configs.sharding_group_size",
       .changed = "2",
       .counter = "held_bytes",
       .launch = kFour,
       .tolerance = kOtherOrder,
       .with = {"sharding=true"},
       .also = {"sharding_configs.hybrid_dp=true"}},
  };
}

}  // namespace

const std::vector<KnobBench>& KnobBenches() {
  static const std::vector<KnobBench> kAll = [] {
    Rows all;
    for (const auto part : {CollectiveRows, MethodRows, PipelineRows, PserverKnobBenches, BuildRows,
                            ExecutionRows, AmpRows, MethodConfigRows, OuterRows, LessSentRows,
                            UpdateConfigRows, ShardingRows, RuntimeRows, PserverFlagBenches}) {
      const Rows rows = part();
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return kAll;
}

}  // namespace tandem::deploy
