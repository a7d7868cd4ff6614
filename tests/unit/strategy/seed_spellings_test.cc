// Tandem accepts a strategy in the spelling of Fleet's guide (PaddlePaddle, 2020), and reports the
// changed names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "proto/job.pb.h"

namespace tandem::strategy {
namespace {

using ::testing::HasSubstr;

TEST(SeedSpellings, EachLandsWhereItBelongs) {
  struct Row {
    const char* text;   // text inside strategy { }
    const char* path;   // path of the field that gets the value
    const char* value;  // value as EffectiveText prints it
    bool note;          // whether a note reports the change
  };
  const Row rows[] = {
      {"thread_num: 3", "execution_strategy.num_threads", "3", true},
      {"exec_strategy { num_threads: 8 }", "execution_strategy.num_threads", "8", true},
      {"BuildStrategy { num_iteration_per_drop_scope: 30 }",
       "execution_strategy.num_iteration_per_drop_scope", "30", true},
      {"build_strategy { num_iteration_per_drop_scope: 30 }",
       "execution_strategy.num_iteration_per_drop_scope", "30", true},
      {"fuse_all_optimizer_ops: True", "build_strategy.fuse_all_optimizer_ops", "true", true},
      {"fuse_bn_act_ops: True", "build_strategy.fuse_bn_act_ops", "true", true},
      {"fuse_elewise_add_act_ops: True", "build_strategy.fuse_elewise_add_act_ops", "true", true},
      {"fuse_grad_size_in_TFLOPS: 20", "fuse_grad_size_in_TFLOPS", "20", false},
      {"fuse_grad_size_in_TFLOPS: 20.0", "fuse_grad_size_in_TFLOPS", "20", false},
      {"_fuse_grad_size_in_TFLOPS: 20", "fuse_grad_size_in_TFLOPS", "20", true},
      {"fuse_grad_size_in_MB: 16", "fuse_grad_size_in_MB", "16", false},
      {"FLAGS_fuse_parameter_memory_size: 16", "fuse_grad_size_in_MB", "16", true},
      {"FLAGS_fuse_parameter_groups_size: 20", "fuse_grad_size_in_TFLOPS", "20", true},
      {"FLAGS_fraction_of_gpu_memory_to_use: 0.7", "runtime_flags.fraction_of_gpu_memory_to_use",
       "0.7", true},
      {"runtime_flags { FLAGS_reader_queue_speed_test_mode: True }",
       "runtime_flags.reader_queue_speed_test_mode", "true", true},
      {"FLAGS_cudnn_exhaustive_search: 1", "cudnn_exhaustive_search", "true", true},
      {"FLAGS_enable_cublas_tensor_op_math: 1", "runtime_flags.enable_cublas_tensor_op_math",
       "true", true},
      {"FLAGS_rpc_deadline: 5000", "runtime_flags.rpc_deadline_ms", "5000", true},
      {"FLAGS_communicator_send_queue_size: 7", "a_sync_configs.send_queue_size", "7", true},
      {"CPU_NUM: 4", "execution_strategy.cpu_num", "4", true},
      {"use_hierarchical_allreduce: True", "use_hierarchical_allreduce", "true", false},
      {"build_strategy { nccl_comm_num: 2 }", "nccl_comm_num", "2", true},
      {"build_strategy { reduce_strategy: fluid.BuildStrategy.ReduceStrategy.Reduce }",
       "build_strategy.reduce_strategy", "Reduce", false},
      {"build_strategy { memory_optimize: True }", "build_strategy.memory_optimize", "On", false},
      {"build_strategy { memory_optimize: False }", "build_strategy.memory_optimize", "Off", false},
      {"amp_configs { init_loss_scaling: 128 incr_ratio: 2.0 }", "amp_configs.init_loss_scaling",
       "128", false},
      {"min_block_size: 4096", "runtime_flags.min_block_size", "4096", true},
      {"NCCL_SOCKET_IFNAME: \"eth2\"", "runtime_flags.nccl_socket_ifname", "eth2", true},
  };
  for (const Row& row : rows) {
    JobConfig job;
    Origins origins;
    Diagnostics diagnostics;
    ParseTextProto({"job.pbtxt", "strategy {\n" + std::string(row.text) + "\n}"}, &job, &origins,
                   &diagnostics);
    EXPECT_EQ(diagnostics.ErrorText(), "") << row.text;
    EXPECT_EQ(diagnostics.NoteText().empty(), !row.note) << diagnostics.NoteText();
    const std::string line =
        "strategy." + std::string(row.path) + ": " + row.value + "   (job.pbtxt:2:";
    EXPECT_THAT(EffectiveText(job, origins), HasSubstr(line)) << row.text;
  }
}

// The complete strategy of the ResNet-50 job in the guide of Fleet.
TEST(SeedSpellings, WholeStrategyOfTheResNetJob) {
  const char* text = R"(
    sync_nccl_allreduce: True  nccl_comm_num: 2  fuse_all_reduce_ops: True
    build_strategy { enable_sequential_execution: True fuse_elewise_add_act_ops: True
      fuse_bn_act_ops: True enable_auto_fusion: True fuse_all_optimizer_ops: True }
    execution_strategy { num_threads: 3 num_iteration_per_drop_scope: 100 num_iteration_per_run: 1 }
    amp: True
    amp_configs { init_loss_scaling: 128 decr_every_n_nan_or_inf: 2 incr_every_n_steps: 1000
      incr_ratio: 2.0 use_dynamic_loss_scaling: True decr_ratio: 0.5 custom_white_list: []
      custom_black_list: [] })";
  DistributedStrategy strategy;
  Diagnostics diagnostics;
  ParseTextProto({"dist_strategy.prototxt", text}, &strategy, nullptr, &diagnostics);
  EXPECT_EQ(diagnostics.ErrorText(), "");
  EXPECT_EQ(diagnostics.NoteText(), "");
  EXPECT_EQ(strategy.execution_strategy().num_iteration_per_drop_scope(), 100);
  EXPECT_EQ(strategy.amp_configs().decr_ratio(), 0.5);
}

TEST(SeedSpellings, TwoSpellingsOfOneKnobAreTwoValues) {
  DistributedStrategy strategy;
  Diagnostics diagnostics;
  ParseTextProto({"s", "thread_num: 3\nexecution_strategy { num_threads: 4 }"}, &strategy, nullptr,
                 &diagnostics);
  EXPECT_THAT(diagnostics.ErrorText(), HasSubstr("s:2:22: error: num_threads is given twice; first "
                                                 "in line 1"));
}

TEST(SeedSpellings, NamesThatAreNoKnobsSayWhatToDo) {
  for (const auto& [name, hint] : std::vector<std::pair<std::string, std::string>>{
           {"num_trainers: 2", "launcher"},
           {"build_strategy { trainer_id: 0 }", "launcher"},
           {"sync_mode: True", "a_sync: false"},
           {"FLAGS_selected_gpus: \"0\"", "place"},
           {"sync_bn: true", "use knob sync_batch_norm"},
           {"reduce_mode: Reduce", "build_strategy.reduce_strategy"},
           {"grad_merge: true", "use knob gradient_merge"},
           {"num_iteration_per_drop: 3", "execution_strategy.num_iteration_per_drop_scope"},
           {"k_steps: 3", "a_sync_configs.k_steps, localsgd_configs.k_steps"}}) {
    DistributedStrategy strategy;
    Diagnostics diagnostics;
    ParseTextProto({"s", name}, &strategy, nullptr, &diagnostics);
    EXPECT_THAT(diagnostics.ErrorText(), HasSubstr("hint: ")) << name;
    EXPECT_THAT(diagnostics.ErrorText(), HasSubstr(hint)) << name;
  }
  JobConfig job;
  Diagnostics diagnostics;
  ParseTextProto({"job", "a_sync: true"}, &job, nullptr, &diagnostics);
  EXPECT_THAT(diagnostics.ErrorText(), HasSubstr("\"a_sync\" belongs in strategy { }"));
  Diagnostics of_guide;
  ParseTextProto({"job", "dist_strategy { a_sync: true }"}, &job, nullptr, &of_guide);
  EXPECT_THAT(of_guide.ErrorText(), HasSubstr("hint: use field strategy: strategy {"));
}

}  // namespace
}  // namespace tandem::strategy
