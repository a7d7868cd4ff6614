// Checks that the list of knobs is complete, and that docs/reference/knobs.md is generated from it.
#include "common/strategy/knobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <filesystem>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace tandem::strategy {
namespace {

using ::testing::HasSubstr;

// Returns whether tests/ contains a file with the name `stem`.
bool TestExists(const std::string& stem) {
  const char* root = std::getenv("TANDEM_SOURCE_DIR");
  const std::string tests = std::string(root != nullptr ? root : ".") + "/tests";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tests)) {
    if (entry.path().filename() == stem + ".cc") return true;
  }
  return false;
}

TEST(Knobs, EachIsDocumentedAndBuiltOnesHaveAnEffectTest) {
  const std::vector<KnobInfo> list = ListKnobs();
  EXPECT_GE(list.size(), 120u);
  std::set<std::string> paths, aliases;
  for (const KnobInfo& info : list) {
    EXPECT_GE(info.doc.size(), 2u) << info.path;
    EXPECT_EQ(info.doc.back(), '.') << info.path;
    if (info.built) {
      EXPECT_TRUE(TestExists(info.effect_test)) << info.path << ": no " << info.effect_test;
    }
    const bool number =
        info.type.find("int") != std::string::npos || info.type.find("double") != std::string::npos;
    if (number) {
      EXPECT_FALSE(info.range.empty()) << info.path;
    }
    EXPECT_TRUE(paths.insert(info.path).second) << info.path;
    for (const std::string& alias : info.aliases) {
      EXPECT_TRUE(aliases.insert(alias).second) << alias;
    }
  }
  for (const KnobInfo& info : list) {
    EXPECT_EQ(aliases.count(info.path), 0u) << info.path;
  }
}

TEST(Knobs, AllOfTheSeedsAreThere) {
  for (const char* name : {"auto",
                           "a_sync",
                           "sync_nccl_allreduce",
                           "nccl_comm_num",
                           "use_hierarchical_allreduce",
                           "hierarchical_allreduce_inter_nranks",
                           "sync_batch_norm",
                           "fuse_all_reduce_ops",
                           "fuse_grad_size_in_MB",
                           "fuse_grad_size_in_TFLOPS",
                           "last_comm_group_size_MB",
                           "cudnn_exhaustive_search",
                           "conv_workspace_size_limit",
                           "cudnn_batchnorm_spatial_persistent",
                           "amp",
                           "recompute",
                           "checkpoints",
                           "localsgd",
                           "adaptive_localsgd",
                           "dgc",
                           "gradient_merge",
                           "lars",
                           "lamb",
                           "pipeline",
                           "elastic",
                           "fp16_allreduce",
                           "sharding",
                           "deterministic",
                           "max_merge_var_num",
                           "send_queue_size",
                           "independent_recv_thread",
                           "min_send_grad_num_before_recv",
                           "thread_pool_size",
                           "send_wait_times",
                           "runtime_split_send_recv",
                           "launch_barrier",
                           "lr_decay_steps",
                           "heter_worker_device_guard",
                           "reduce_strategy",
                           "gradient_scale_strategy",
                           "enable_sequential_execution",
                           "enable_backward_optimizer_op_deps",
                           "fuse_elewise_add_act_ops",
                           "fuse_bn_act_ops",
                           "fuse_bn_add_act_ops",
                           "fuse_relu_depthwise_conv",
                           "fuse_broadcast_ops",
                           "fuse_all_optimizer_ops",
                           "enable_inplace",
                           "memory_optimize",
                           "cache_runtime_context",
                           "enable_auto_fusion",
                           "mkldnn_enabled_op_types",
                           "enable_addto",
                           "debug_graphviz_path",
                           "num_threads",
                           "thread_num",
                           "num_iteration_per_drop_scope",
                           "num_iteration_per_run",
                           "use_thread_barrier",
                           "CPU_NUM",
                           "init_loss_scaling",
                           "use_dynamic_loss_scaling",
                           "incr_every_n_steps",
                           "incr_ratio",
                           "decr_every_n_nan_or_inf",
                           "decr_ratio",
                           "custom_white_list",
                           "custom_black_list",
                           "custom_black_varnames",
                           "FLAGS_reader_queue_speed_test_mode",
                           "FLAGS_fraction_of_gpu_memory_to_use",
                           "FLAGS_initial_gpu_memory_in_mb",
                           "FLAGS_reallocate_gpu_memory_in_mb",
                           "FLAGS_gpu_memory_limit_mb",
                           "FLAGS_fuse_parameter_memory_size",
                           "FLAGS_fuse_parameter_groups_size",
                           "FLAGS_cudnn_exhaustive_search",
                           "FLAGS_enable_cublas_tensor_op_math",
                           "FLAGS_sync_nccl_allreduce",
                           "FLAGS_check_nan_inf",
                           "FLAGS_benchmark",
                           "FLAGS_rpc_deadline",
                           "FLAGS_rpc_retry_times",
                           "slice_var_up",
                           "min_block_size",
                           "dispatcher",
                           "FLAGS_communicator_max_merge_var_num",
                           "FLAGS_communicator_send_queue_size",
                           "FLAGS_communicator_independent_recv_thread",
                           "FLAGS_communicator_min_send_grad_num_before_recv",
                           "FLAGS_communicator_thread_pool_size",
                           "FLAGS_communicator_send_wait_times",
                           "FLAGS_communicator_is_sgd_optimizer",
                           "NCCL_SOCKET_IFNAME",
                           "NCCL_P2P_DISABLE",
                           "NCCL_IB_DISABLE",
                           "NCCL_IB_CUDA_SUPPORT",
                           "NCCL_DEBUG",
                           "use_double_buffer",
                           "FLAGS_cpu_deterministic",
                           "FLAGS_enable_rpc_profiler",
                           "BuildStrategy"}) {
    EXPECT_TRUE(FindKnobs(name).ok()) << name;
  }
}

TEST(Knobs, TableAndExplain) {
  const std::string table = KnobsTable();
  EXPECT_EQ(table.rfind("NAME ", 0), 0u);
  EXPECT_THAT(table, HasSubstr("\nbuild_strategy.gradient_scale_strategy "));
  const auto a_sync = FindKnobs("a_sync");
  ASSERT_TRUE(a_sync.ok());
  for (const char* part :
       {"a_sync\n", "default:       false", "modes:         pserver, hybrid",
        "also written:  async_mode", "built:         yes", "effect test:   pserver_modes_test",
        "why:           The table in Fleet's guide"}) {
    EXPECT_THAT(ExplainKnobs(*a_sync), HasSubstr(part));
  }
  EXPECT_THAT(ExplainKnobs(*FindKnobs("k_steps")), HasSubstr("localsgd_configs.k_steps\n"));
  const Status unknown = FindKnobs("fuse_all_reduce_op").status();
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("did you mean \"fuse_all_reduce_ops\"?"));
  EXPECT_EQ(FindKnobs("").status().code(), StatusCode::kNotFound);
}

// With TANDEM_UPDATE=1, the test writes the page instead of checking it.
TEST(Knobs, PageIsCurrent) {
  const char* source = std::getenv("TANDEM_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "TANDEM_SOURCE_DIR is not set";
  const std::string path = std::string(source) + "/docs/reference/knobs.md";
  const char* update = std::getenv("TANDEM_UPDATE");
  if (update != nullptr && std::string(update) == "1") std::ofstream(path) << KnobsMarkdown();
  std::ifstream file(path);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == KnobsMarkdown())
      << "docs/reference/knobs.md is not current; write it anew: TANDEM_UPDATE=1 TANDEM_SOURCE_DIR="
      << source << " build/tests/knobs_test";
}

}  // namespace
}  // namespace tandem::strategy
