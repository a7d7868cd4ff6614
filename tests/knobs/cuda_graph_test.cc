// execution_strategy.cuda_graph: the number of launches per step, and the operators that run
// between two graphs. The bits are the same as those of single launches.
#include <algorithm>

#include "gmock/gmock.h"
#include "tests/support/cuda_on_host_job.h"
#include "tests/support/device_job_test.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kOn = "--cuda_graph=true";

class CudaGraph : public CudaOnHostTest {
 protected:
  // Results of the same job without and with the knob.
  struct Both {
    JobRun off, on;
  };
  Both RunBoth(const std::string& name, Args flags, const Env& env = {}) const {
    Both both;
    both.off = Run(name + "_off", "cuda", flags);
    flags.push_back(kOn);
    both.on = Run(name, "cuda", flags, env);
    EXPECT_EQ(both.off.exit_code, 0) << both.off.output;
    EXPECT_EQ(both.on.exit_code, 0) << both.on.output;
    EXPECT_EQ(both.on.result.params_sha256, both.off.result.params_sha256) << name;
    EXPECT_EQ(both.on.result.loss, both.off.result.loss) << name;
    EXPECT_THAT(both.off.output, Not(HasSubstr("cuda_graph")));
    return both;
  }
  static double Launches(const JobRun& run) { return run.result.counts.at("device.launches"); }
  // Returns the number of lines equal to `line` in the log of CUDA calls.
  int64_t Noted(const std::string& name, const std::string& line) const {
    const std::string log = "\n" + Log(name);
    int64_t count = 0;
    for (size_t at = 0; (at = log.find("\n" + line + "\n", at)) != std::string::npos; ++at) ++count;
    return count;
  }
};

// The first step launches each kernel separately. Each later step is one launch of a graph.
TEST_F(CudaGraph, AStepIsOneLaunch) {
  const Both both = RunBoth("adam", {"--optimizer.type=adam", "--steps_max=6"});
  const double kernels = Launches(both.off) / 6;
  EXPECT_GT(kernels, 20);
  EXPECT_EQ(Launches(both.on), kernels + 5);
  EXPECT_EQ(Noted("adam", "graph"), 5);
  EXPECT_EQ(Noted("adam_off", "graph"), 0);
  EXPECT_GT(Noted("adam_off", "kernel"), 5 * kernels);
  EXPECT_LT(Noted("adam", "kernel"), Noted("adam_off", "kernel") - 4 * kernels);
  EXPECT_THAT(both.on.output,
              HasSubstr(absl::StrFormat("cuda_graph: %d of %d kernels of a step in 1 graph\n",
                                        static_cast<int>(kernels), static_cast<int>(kernels))));
  EXPECT_THAT(both.on.output, HasSubstr(" launches were reduced to 1\n"));
}

// The host passes the learning rate and the weight of each step to the device without a wait. The
// host waits once per step, for the end of the step.
TEST_F(CudaGraph, AStepIsWaitedForOnce) {
  const auto waits = [this](const std::string& name, int steps) {
    const JobRun run = Run(name, "cuda",
                           {kOn, "--epochs=9", "--log_every_steps=1000", "--eval_every_epochs=0",
                            "--steps_max=" + std::to_string(steps)});
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return Noted(name, "wait");
  };
  const int64_t few = waits("few", 10), many = waits("many", 30);
  EXPECT_EQ(many - few, 20);
}

// The learning rate and the dropout mask change from step to step. The recorded kernels must read
// both on the device.
TEST_F(CudaGraph, WhatChangesIsReadOnTheDevice) {
  std::string words;
  for (int i = 0; i < 300; ++i) words += i % 7 == 0 ? "one " : i % 3 == 0 ? "two " : "three\n";
  Write("words.txt", words);
  job_ = Write("text.pbtxt", R"(
name: "text"
model { zoo: "transformer_lm" arg { name: "layers" value: "1" } arg { name: "width" value: "8" }
        arg { name: "heads" value: "2" } arg { name: "sequence" value: "6" }
        arg { name: "dropout" value: "0.2" } }
data { format: "text" dir: ")" + dir_ +
                                 R"(" text { file: "words.txt" sequence: 6 } }
optimizer { type: "momentum" learning_rate: 0.05
            schedule { kind: EXPONENTIAL decay_steps: 1 decay_rate: 0.5 } }
global_batch_size: 4
seed: 5
)");
  RunBoth("text", {"--steps_max=5"});
}

// The host reads the condition of an operator, so the condition divides a step into several graphs.
// If the first step skips an operator, the operator is recorded after its first run.
TEST_F(CudaGraph, ConditionsCutAStep) {
  const Both merge =
      RunBoth("merge", {"--gradient_merge=true", "--gradient_merge_k_steps=2", "--steps_max=8"});
  EXPECT_THAT(merge.on.output, HasSubstr("; the host reads the condition of: "));
  EXPECT_LT(Launches(merge.on), Launches(merge.off) / 2);
  const Both amp = RunBoth(
      "amp", {"--amp=true", "--amp_dtype=f16", "--init_loss_scaling=1e12", "--incr_every_n_steps=2",
              "--decr_every_n_nan_or_inf=1", "--decr_ratio=0.001", "--steps_max=8"});
  EXPECT_THAT(amp.on.output, HasSubstr("; the host reads the condition of: sgd ("));
  EXPECT_LT(Launches(amp.on), Launches(amp.off) / 2);
}

TEST_F(CudaGraph, WhatCannotBeRecordedIsLaunchedOneByOne) {
  const Both both = RunBoth("fault", {"--steps_max=4"}, {{"TANDEM_CUDA_ON_HOST_FAULT", "capture"}});
  EXPECT_THAT(both.on.output, HasSubstr("kernels from op #0 on are launched separately: "));
  EXPECT_EQ(Launches(both.on), Launches(both.off));
  EXPECT_EQ(Noted("fault", "graph"), 0);
}

TEST_F(CudaGraph, TheCpuHasNone) {
  const JobRun run = Run("cpu", "cpu", {kOn, "--steps_max=2"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("cuda_graph: not available on the CPU\n"));
}

// Uses the stand-in device, whose kernels are the kernels of the CPU.
using CudaGraphRanks = DeviceJobTest;

TEST_F(CudaGraphRanks, CommunicationCutsAStep) {
  const JobRun host = RunRanks("host", 2, {});
  for (const std::string nccl_comm_num : {"1", "2"}) {
    const JobRun run = RunRanks(
        "ranks" + nccl_comm_num, 2,
        {"--place=cuda", kOn, "--nccl_comm_num=" + nccl_comm_num, "--fuse_all_reduce_ops=false"});
    ExpectSame("ranks", host, run);
    EXPECT_THAT(run.output, HasSubstr("; the host starts and waits for: c_allreduce_sum (6)\n"));
  }
}

}  // namespace
}  // namespace tandem::trainer
