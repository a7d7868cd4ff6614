// check_nan_inf: a job that diverges ends at the first operator that does, by name; without it the
// job trains on with what is no number.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

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
    EXPECT_THAT(job->Output(), HasSubstr("check_nan_inf: not finite is "));
    EXPECT_THAT(job->Output(), HasSubstr("op #"));
  }
}

TEST_F(CheckNanInfTest, ChangesNoBit) {
  const JobRun off = RunJob("off", {"--mode=local"}, {"--steps_max=20"});
  const JobRun on = RunJob("on", {"--mode=local"}, {"--steps_max=20", "--check_nan_inf=true"});
  EXPECT_EQ(on.result.params_sha256, off.result.params_sha256);
}

}  // namespace
}  // namespace tandem
