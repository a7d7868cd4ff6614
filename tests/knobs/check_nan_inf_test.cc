// check_nan_inf: a diverging job ends at the first operator that computes NaN or infinity, and
// names this operator. Without the knob, training continues.
#include "gmock/gmock.h"
#include "tests/support/cuda_on_host_job.h"

namespace tandem::trainer {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using CheckNanInfTest = JobTest;

TEST_F(CheckNanInfTest, TheFirstOperatorIsNamed) {
  const std::vector<std::string> diverges = {"--optimizer.learning_rate=1e18", "--steps_max=20"};
  for (const std::string mode : {"local", "collective"}) {
    std::vector<std::string> launch = {"--mode=" + mode};
    if (mode == "collective") launch.push_back("--nproc=2");
    EXPECT_EQ(StartJob(mode + "-blind", launch, diverges)->Wait(), 0);
    auto args = diverges;
    args.push_back("--FLAGS_check_nan_inf=true");
    const auto job = StartJob(mode, launch, args);
    EXPECT_EQ(job->Wait(), 65) << job->Output();
    EXPECT_THAT(job->Output(), HasSubstr("check_nan_inf: the result "));
    EXPECT_THAT(job->Output(), HasSubstr("op #"));
  }
}

TEST_F(CheckNanInfTest, ChangesNoBit) {
  const JobRun off = RunJob("off", {"--mode=local"}, {"--steps_max=20"});
  const JobRun on = RunJob("on", {"--mode=local"}, {"--steps_max=20", "--check_nan_inf=true"});
  EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
}

// On a CUDA place, the CUDA kernel searches for NaN and infinity.
class CheckNanInfOnDevice : public CudaOnHostTest {};

TEST_F(CheckNanInfOnDevice, TheFirstOperatorIsNamed) {
  const JobRun off = Run("off", "cuda", {"--steps_max=6"});
  const JobRun on = Run("on", "cuda", {"--steps_max=6", "--check_nan_inf=true"});
  ASSERT_EQ(on.exit_code, 0) << on.output;
  EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
  const Args diverges = {"--steps_max=6", "--optimizer.learning_rate=1e30", "--check_nan_inf=true"};
  for (const std::string graphs : {"false", "true"}) {
    Args args = diverges;
    args.push_back("--cuda_graph=" + graphs);
    const JobRun run = Run("graphs_" + graphs, "cuda", args);
    EXPECT_EQ(run.exit_code, 65) << run.output;
    EXPECT_THAT(run.output, ContainsRegex("step 2: op #[0-9]+ [a-z0-9_]+.*: check_nan_inf: the "
                                          "result [^ ]+\\[[0-9]+\\] of f32"));
  }
}

}  // namespace
}  // namespace tandem::trainer
