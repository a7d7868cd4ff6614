// localsgd, k_steps and begin_step: every k-th step averages the parameters. This replaces the
// average of the gradients at each step.
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;

class LocalSgdTest : public KnobProgramTest {
 protected:
  static Overrides Knobs(const std::string& k, const std::string& begin) {
    return {{"mode", "collective"},
            {"localsgd", "true"},
            {"localsgd_configs.k_steps", k},
            {"localsgd_configs.begin_step", begin}};
  }
};

TEST_F(LocalSgdTest, CommunicatesEveryKthStep) {
  const auto plain = Programs({{"mode", "collective"}});
  EXPECT_EQ(Run(plain.train, 12).communications, 12);
  EXPECT_EQ(Run(Programs(Knobs("4", "0")).train, 12).communications, 3);
  EXPECT_EQ(Run(Programs(Knobs("4", "5")).train, 13).communications, 5 + 2);
  EXPECT_EQ(Run(Programs(Knobs("1", "0")).train, 12).communications, 12);
}

// In a world of one rank the average changes no parameter, also if other passes change the program.
TEST_F(LocalSgdTest, TheMeanOfOneIsItself) {
  const auto want = Run(Programs({}).train, 8).params;
  EXPECT_EQ(Run(Programs(Knobs("3", "2")).train, 8).params, want);
  Overrides all = Knobs("3", "2");
  all.insert(all.end(), {{"fuse_all_optimizer_ops", "true"},
                         {"enable_auto_fusion", "true"},
                         {"enable_backward_optimizer_op_deps", "false"}});
  EXPECT_EQ(Run(Programs(all).train, 8).params, want);
}

// LocalSGD with the optimizer sgd and an average at every step equals SGD except for rounding: the
// mean of two updates is the update by the mean gradient.
TEST_F(LocalSgdTest, AveragedAtEveryStepItIsSgd) {
  const std::vector<std::string> launch = {"--mode=collective", "--nproc=2"};
  const std::vector<std::string> sgd = {"--optimizer.type=sgd", "--steps_max=40"};
  auto local = sgd, sparse = sgd;
  local.insert(local.end(), {"--localsgd=true", "--localsgd_configs.k_steps=1"});
  sparse.insert(sparse.end(), {"--localsgd=true", "--localsgd_configs.k_steps=8"});
  const JobRun plain = RunJob("sgd", launch, sgd), every = RunJob("every", launch, local);
  const JobRun eighth = RunJob("eighth", launch, sparse);
  EXPECT_NEAR(every.result.loss, plain.result.loss, 1e-4 * plain.result.loss);
  EXPECT_NEAR(eighth.result.loss, plain.result.loss, 0.1 * plain.result.loss);
  EXPECT_NE(eighth.result.params_sha256, every.result.params_sha256);
}

TEST_F(LocalSgdTest, ExcludesWhatSendsGradients) {
  const auto job = StartJob("both", {"--mode=collective", "--nproc=2"},
                            {"--localsgd=true", "--gradient_merge=true"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("localsgd sends no gradients"));
}

}  // namespace
}  // namespace tandem::trainer
