// The first suggestion must be right for common typing errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/nearest.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "proto/strategy.pb.h"

namespace tandem::strategy {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("a_sync", "a_snyc"), 1);
  EXPECT_EQ(EditDistance("a_sync", "A_SYNC"), 0);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("ca", "abc"), 3);  // the distance counts optimal string alignment
}

TEST(NearestName, NothingNearGivesNothing) {
  EXPECT_EQ(NearestName("zzzzzzzz", {"a_sync", "amp"}), "");
  EXPECT_EQ(NearestName("", {"a_sync"}), "");
  EXPECT_EQ(NearestName("xy", {"ab"}), "");
  EXPECT_EQ(NearestName("abc", {}), "");
  EXPECT_EQ(NearestName(std::string(100000, 'a'), {"a"}), "");
}

TEST(DidYouMean, TypicalSlips) {
  struct Row {
    const char* written;
    const char* meant;
  };
  const Row rows[] = {
      {"fuse_all_reduce", "fuse_all_reduce_ops"},
      {"fuse_all_reduce_op", "fuse_all_reduce_ops"},
      {"fuse_allreduce_op", "fuse_allreduce_ops"},
      {"fuse_all_redcue_ops", "fuse_all_reduce_ops"},
      {"fuse_alreduce_ops", "fuse_allreduce_ops"},
      {"async", "a_sync"},
      {"a_asnyc", "a_sync"},
      {"a_sync_config", "a_sync_configs"},
      {"async_config", "async_configs"},
      {"sync_nccl_all_reduce", "sync_nccl_allreduce"},
      {"sync_ncll_allreduce", "sync_nccl_allreduce"},
      {"nccl_sync_allreduce", "sync_nccl_allreduce"},
      {"nccl_com_num", "nccl_comm_num"},
      {"nccl_comm_nums", "nccl_comm_num"},
      {"num_nccl_comm", "nccl_comm_num"},
      {"use_hierarchical_all_reduce", "use_hierarchical_allreduce"},
      {"use_hierachical_allreduce", "use_hierarchical_allreduce"},
      {"hierarchical_allreduce", "use_hierarchical_allreduce"},
      {"hierarchical_allreduce_inter_nrank", "hierarchical_allreduce_inter_nranks"},
      {"sync_batchnorm", "sync_batch_norm"},
      {"sync_bacth_norm", "sync_batch_norm"},
      {"batch_norm_sync", "sync_batch_norm"},
      {"fuse_grad_size_in_mb", "fuse_grad_size_in_MB"},
      {"fuse_grad_size_MB", "fuse_grad_size_in_MB"},
      {"fuse_grad_size_in_TFLOP", "fuse_grad_size_in_TFLOPS"},
      {"fuse_gard_size_in_MB", "fuse_grad_size_in_MB"},
      {"cudnn_exaustive_search", "cudnn_exhaustive_search"},
      {"cudnn_exhaustive_serach", "cudnn_exhaustive_search"},
      {"conv_workspace_size", "conv_workspace_size_limit"},
      {"conv_workspace_limit_size", "conv_workspace_size_limit"},
      {"cudnn_batch_norm_spatial_persistent", "cudnn_batchnorm_spatial_persistent"},
      {"build_stategy", "build_strategy"},
      {"buildstrategy", "BuildStrategy"},
      {"build_strategies", "build_strategy"},
      {"execution_stratergy", "execution_strategy"},
      {"executor_strategy", "execution_strategy"},
      {"ampp", "amp"},
      {"amp_config", "amp_configs"},
      {"recompute_config", "recompute_configs"},
      {"re_compute", "recompute"},
      {"local_sgd_configs", "localsgd_configs"},
      {"gradient_merg", "gradient_merge"},
      {"grad_merge", "gradient_merge"},
      {"gradiant_merge", "gradient_merge"},
      {"fp16_all_reduce", "fp16_allreduce"},
      {"determinstic", "deterministic"},
      {"deterministc", "deterministic"},
      {"shardings", "sharding"},
      {"pipline", "pipeline"},
      {"runtime_flag", "runtime_flags"},
      {"reduce_stratgy", "reduce_strategy"},
      {"reducestrategy", "reduce_strategy"},
      {"gradient_scale_stategy", "gradient_scale_strategy"},
      {"grad_scale_strategy", "gradient_scale_strategy"},
      {"enable_sequentail_execution", "enable_sequential_execution"},
      {"fuse_elemwise_add_act_ops", "fuse_elewise_add_act_ops"},
      {"fuse_elementwise_add_act_ops", "fuse_elewise_add_act_ops"},
      {"fuse_bn_act_op", "fuse_bn_act_ops"},
      {"fuse_bn_activation_ops", "fuse_bn_act_ops"},
      {"fuse_relu_depthwise_convs", "fuse_relu_depthwise_conv"},
      {"fuse_broadcast_op", "fuse_broadcast_ops"},
      {"fuse_all_optimizers_ops", "fuse_all_optimizer_ops"},
      {"fuse_all_optimiser_ops", "fuse_all_optimizer_ops"},
      {"enable_in_place", "enable_inplace"},
      {"memory_optimise", "memory_optimize"},
      {"mem_optimize", "memory_optimize"},
      {"cache_runtime_contex", "cache_runtime_context"},
      {"mkldnn_enabled_ops_types", "mkldnn_enabled_op_types"},
      {"num_thread", "num_threads"},
      {"threads_num", "thread_num"},
      {"num_iterations_per_drop_scope", "num_iteration_per_drop_scope"},
      {"num_iteration_per_runs", "num_iteration_per_run"},
      {"init_loss_scale", "init_loss_scaling"},
      {"loss_scaling_init", "init_loss_scaling"},
      {"use_dynamic_loss_scale", "use_dynamic_loss_scaling"},
      {"custom_whitelist", "custom_white_list"},
      {"sendqueue_size", "send_queue_size"},
      {"rpc_deadline_m", "rpc_deadline_ms"},
      {"rpc_retry_time", "rpc_retry_times"},
      {"FLAGS_rpc_dealine", "FLAGS_rpc_deadline"},
      {"FLAGS_fraction_of_gpu_memory", "FLAGS_fraction_of_gpu_memory_to_use"},
      {"slice_var", "slice_var_up"},
      {"min_blok_size", "min_block_size"},
      {"check_nan", "check_nan_inf"},
  };
  int right = 0;
  std::string wrong;
  for (const Row& row : rows) {
    DistributedStrategy strategy;
    Diagnostics diagnostics;
    ParseTextProto({"s", std::string(row.written) + ": 1"}, &strategy, nullptr, &diagnostics);
    ASSERT_EQ(diagnostics.entries().size(), 1u) << row.written;
    const std::string& hint = diagnostics.entries()[0].hint;
    const bool good = hint.rfind("did you mean \"" + std::string(row.meant) + "\"?", 0) == 0;
    right += good ? 1 : 0;
    if (!good) wrong += std::string(row.written) + ": " + hint + "\n";
  }
  const double share = static_cast<double>(right) / static_cast<double>(std::size(rows));
  RecordProperty("right", right);
  EXPECT_GE(share, 0.95) << right << " of " << std::size(rows) << "\n" << wrong;
  std::printf("did you mean: %d of %d right\n%s", right, static_cast<int>(std::size(rows)),
              wrong.c_str());
}

}  // namespace
}  // namespace tandem::strategy
