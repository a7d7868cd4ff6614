// gradient_merge, k_steps and avg: k steps share one update and one round of communication. The
// update uses the mean or the sum of their gradients.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class GradientMergeTest : public KnobProgramTest {
 protected:
  graph::Program Merged(const std::string& k, Overrides more = {}) {
    more.emplace_back("gradient_merge", "true");
    more.emplace_back("gradient_merge_k_steps", k);
    return Programs(more).train;
  }
};

TEST_F(GradientMergeTest, AKthOfTheCommunication) {
  const Overrides collective = {{"mode", "collective"}, {"fuse_grad_size_in_MB", "-1"}};
  EXPECT_EQ(Run(Programs(collective).train, 8).communications, 5 * 8);
  EXPECT_EQ(Run(Merged("4", collective), 8).communications, 5 * 2);
  EXPECT_EQ(Run(Merged("4", collective), 7).communications, 5);
}

// If k steps have the same batch, the mean of their gradients equals the gradient of one step. The
// mean is exact if k is a power of 2.
TEST_F(GradientMergeTest, TheMeanOfTheSameGradientIsTheGradient) {
  const auto plain = Run(Programs({}).train, 3).params;
  EXPECT_EQ(Run(Merged("4"), 12).params, plain);
  EXPECT_EQ(Run(Merged("4"), 15).params, plain) << "nothing happens before the 16th step";
  EXPECT_NE(Run(Merged("4"), 16).params, plain);
  // Clipping uses the norm of the merged gradient, not the norms of its parts.
  const Overrides clip = {{"optimizer.clip_global_norm", "0.01"}};
  EXPECT_EQ(Run(Merged("4", clip), 12).params, Run(Programs(clip).train, 3).params);
}

TEST_F(GradientMergeTest, WithoutAvgItIsTheSum) {
  const Overrides sgd = {{"optimizer.type", "sgd"}};
  Overrides sum = sgd;
  sum.emplace_back("avg", "false");
  EXPECT_EQ(Run(Merged("2", sum), 6, 0.03125f).params, Run(Programs(sgd).train, 3, 0.0625f).params);
  EXPECT_NE(Run(Merged("2", sum), 6, 0.0625f).params, Run(Programs(sgd).train, 3, 0.0625f).params);
}

TEST_F(GradientMergeTest, GoesWithFusedUpdatesAndResumes) {
  const auto all = Run(Merged("2", {{"fuse_all_optimizer_ops", "true"}}), 6).params;
  EXPECT_EQ(all, Run(Merged("2"), 6).params);
  const std::vector<std::string> flags = {"--gradient_merge=true", "--gradient_merge_k_steps=4"};
  std::vector<std::string> broken = flags;
  broken.push_back("--checkpoint.dir=" + Path("checkpoints"));
  broken.push_back("--checkpoint.every_steps=3");
  const std::string whole = Sha("whole", "collective", flags);
  std::vector<std::string> first = broken;
  first.push_back("--steps_max=9");
  EXPECT_EQ(RunJob("first", {"--mode=collective", "--nproc=2"}, first).exit_code, 0);
  EXPECT_EQ(Sha("second", "collective", broken), whole) << "stopped at step 9, inside a round";
}

TEST_F(GradientMergeTest, IsRefusedWithPservers) {
  const auto job = StartJob("pserver", {"--mode=pserver", "--servers=1", "--workers=1"},
                            {"--gradient_merge=true", "--gradient_merge_k_steps=2"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_NE(job->Output().find("gradient_merge: true has no effect"), std::string::npos)
      << job->Output();
}

}  // namespace
}  // namespace tandem::trainer
