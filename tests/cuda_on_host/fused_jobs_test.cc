// Tests the fusing knobs on a device. Kernels are compiled when the job starts, and a step launches
// fewer kernels. The bits of the parameters stay the same, with and without a compiler.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FusedJobs : public CudaOnHostTest {
 protected:
  static constexpr int kSteps = 4;

  JobRun Train(const std::string& name, Args flags, const Env& env = {}) const {
    flags.insert(flags.end(),
                 {"--epochs=9", "--eval_every_epochs=0", "--steps_max=" + std::to_string(kSteps)});
    JobRun run = Run(name, "cuda", flags, env);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run;
  }
  // Returns the number of kernel launches of the job `name`.
  int64_t Kernels(const std::string& name) const {
    const std::string log = "\n" + Log(name);
    int64_t count = 0;
    for (size_t at = 0; (at = log.find("\nkernel\n", at)) != std::string::npos; ++at) ++count;
    return count;
  }
  // A program of two layers. Between them are scale, gelu and a product with the output of the
  // first layer.
  static constexpr const char* kChain = R"(
var { name: "img" kind: DATA dims: [-1, 64] }
var { name: "label" kind: DATA dtype: I64 dims: [-1, 1] }
var { name: "w" kind: PARAM dims: [64, 37] init { kind: XAVIER_UNIFORM } }
var { name: "v" kind: PARAM dims: [37, 10] init { kind: XAVIER_UNIFORM } }
op { type: "fc" input { slot: "Input" var: "img" } input { slot: "W" var: "w" }
     output { slot: "Out" var: "a" } }
op { type: "scale" input { slot: "X" var: "a" } output { slot: "Out" var: "b" }
     attr { name: "scale" f: 1.5 } }
op { type: "gelu" input { slot: "X" var: "b" } output { slot: "Out" var: "c" } }
op { type: "elementwise_mul" input { slot: "X" var: "c" } input { slot: "Y" var: "a" }
     output { slot: "Out" var: "d" } }
op { type: "fc" input { slot: "Input" var: "d" } input { slot: "W" var: "v" }
     output { slot: "Out" var: "logits" } }
op { type: "softmax_with_cross_entropy"
     input { slot: "Logits" var: "logits" } input { slot: "Label" var: "label" }
     output { slot: "Softmax" var: "softmax" } output { slot: "Loss" var: "losses" } }
op { type: "mean" input { slot: "X" var: "losses" } output { slot: "Out" var: "loss" } }
op { type: "accuracy" input { slot: "Out" var: "softmax" } input { slot: "Label" var: "label" }
     output { slot: "Accuracy" var: "accuracy" } }
loss: "loss"
metric: "accuracy"
)";
  static double Count(const JobRun& run, const std::string& name) {
    const auto it = run.result.counts.find(name);
    return it == run.result.counts.end() ? 0 : it->second;
  }
};

TEST_F(FusedJobs, AllUpdatesAreOneKernel) {
  for (const std::string type : {"sgd", "momentum", "adam"}) {
    const std::string optimizer = "--optimizer.type=" + type;
    const JobRun many = Train(type, {optimizer});
    const JobRun one = Train(type + "_fused", {optimizer, "--fuse_all_optimizer_ops=true"});
    EXPECT_EQ(one.result.params_sha256, many.result.params_sha256) << type;
    EXPECT_EQ(Count(one, "plan.nvrtc"), 1) << type;
    EXPECT_EQ(Count(one, "plan.sequence"), 0) << type;
    // For adam, a separate kernel updates the powers of the betas: one such kernel per update, or
    // one for all fused updates.
    const auto updates = static_cast<int64_t>(Count(many, "ops." + type));
    EXPECT_GT(updates, 50);
    const int64_t each = type == "adam" ? 2 : 1;
    EXPECT_EQ(Kernels(type) - Kernels(type + "_fused"), kSteps * each * (updates - 1)) << type;
    EXPECT_THAT(one.output, Not(HasSubstr("fused_elementwise by ")));
  }
}

TEST_F(FusedJobs, ChainsAreOneKernelEach) {
  job_ = Write("chain.pbtxt", absl::StrCat("name: 'chain' model { program: '",
                                           Write("net.pbtxt", kChain), "' }", R"(
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "sgd" learning_rate: 0.05 }
global_batch_size: 8
)"));
  const JobRun plain = Train("plain", {});
  const JobRun fused = Train("fused", {"--enable_auto_fusion=true"});
  EXPECT_EQ(fused.result.params_sha256, plain.result.params_sha256);
  const double chains = Count(fused, "passes.enable_auto_fusion");
  EXPECT_GE(chains, 1);
  EXPECT_EQ(Count(fused, "plan.nvrtc"), chains);
  EXPECT_LT(Kernels("fused"), Kernels("plain"));
}

// Without a compiler, the job continues without fusion and reports the reason.
TEST_F(FusedJobs, WithoutACompiler) {
  const Args flags = {"--optimizer.type=adam", "--fuse_all_optimizer_ops=true"};
  const JobRun plain = Train("plain", {"--optimizer.type=adam"});
  const JobRun run = Train("without", flags, {{"TANDEM_FAKE_NVRTC_FAULT", "compile"}});
  EXPECT_EQ(run.result.params_sha256, plain.result.params_sha256);
  EXPECT_EQ(Count(run, "plan.sequence"), 1);
  EXPECT_THAT(run.output,
              HasSubstr("fused_elementwise by sequence: nvrtc: NVRTC (libnvrtc.so) cannot compile "
                        "a kernel for sm_80: NVRTC_ERROR_COMPILATION\nfused.cu(1): error: as"));
}

}  // namespace
}  // namespace tandem
