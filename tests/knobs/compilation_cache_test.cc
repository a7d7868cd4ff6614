// compilation_cache_dir: a second job compiles neither cuDNN plans nor NVRTC kernels, and trains
// with the same bits. Both libraries are stand-ins (tests/cuda_on_host).
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/built_program.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem::trainer {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Network() {
  graph::ProgramBuilder b("norms", 8);
  std::string x = b.Data("img", DType::kF32, {1, 8, 8});
  for (int i = 0; i < 2; ++i) {
    x = b.Conv2d(x, {.channels = 16, .kernel = 3, .padding = 1, .bias = i == 0});
    x = b.BatchNorm(x, graph::Act::kRelu);
  }
  b.SoftmaxLoss(b.Fc(x, 10), b.Data("label", DType::kI64, {1}));
  return TextOf(b);
}

class CompilationCache : public CudaOnHostTest {
 protected:
  void SetUp() override {
    CudaOnHostTest::SetUp();
    if (IsSkipped()) return;
    Write("network.pbtxt", Network());
    job_ = Write("norms.pbtxt", R"(
name: "norms"
model { program: "network.pbtxt" }
data {
  format: "synthetic"
  synthetic { image: 1 image: 8 image: 8 classes: 10 samples: 64 test_samples: 16 }
}
optimizer { type: "sgd" learning_rate: 0.05 }
global_batch_size: 8
strategy { amp: true amp_configs { amp_dtype: bf16 }
           build_strategy { fuse_bn_act_ops: true fuse_all_optimizer_ops: true } }
)");
  }
  JobRun Train(const std::string& name, Args flags = {}) const {
    flags.push_back("--steps_max=2");
    JobRun run = Run(name, "cuda", flags);
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run;
  }
};

// The 8 compiled entries: outputs of two convolutions, gradients of one input and two filters, a
// normalisation and its gradient, and all updates. Both normalisations share these two plans.
constexpr char kAll[] = "code for the device: 8 compiled [^\n]*, 0 known";

TEST_F(CompilationCache, TheSecondJobCompilesNothing) {
  const JobRun first = Train("first"), second = Train("second");
  EXPECT_THAT(first.output, ContainsRegex(std::string(kAll) + " in .*/compiled\n"));
  EXPECT_THAT(second.output, ContainsRegex("code for the device: 0 compiled [^\n]*, 8 known in "));
  for (const std::string graph :
       {"conv add", "conv", "conv_input", "conv_filter", "norm relu", "greater mul norm_grad"}) {
    EXPECT_THAT(Log("first"), HasSubstr("cuDNN compiles " + graph + "\n"));
    EXPECT_THAT(Log("second"), HasSubstr("cuDNN restores " + graph + "\n"));
    EXPECT_THAT(Log("second"), HasSubstr("cudnnBackendExecute " + graph + "\n"));
  }
  EXPECT_THAT(Log("first"), Not(HasSubstr("cuDNN restores")));
  EXPECT_THAT(Log("second"), Not(HasSubstr("cuDNN compiles")));
  EXPECT_EQ(second.result.params_sha256, first.result.params_sha256);
}

TEST_F(CompilationCache, NothingIsKeptWithoutAFolder) {
  for (const std::string name : {"first", "second"}) {
    const JobRun run = Train(name, {"--compilation_cache_dir="});
    EXPECT_THAT(run.output, ContainsRegex(absl::StrCat(kAll, "\n")));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("compiled")));
}

TEST_F(CompilationCache, AFolderThatCannotBeWrittenIsNamed) {
  const JobRun plain = Train("plain");
  Write("file", "");
  const JobRun run = Train("refused", {"--compilation_cache_dir=" + Path("file")});
  EXPECT_THAT(run.output,
              ContainsRegex("warning: what was compiled is not kept: .*" + Path("file")));
  EXPECT_EQ(run.result.params_sha256, plain.result.params_sha256);
}

}  // namespace
}  // namespace tandem::trainer
