// recompute and its checkpoints: a step needs less memory and more operators, and gives the same
// bits.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class RecomputeTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (!IsSkipped())
      UseModel(
          "zoo: \"residual_cnn\" arg { name: \"channels\" value: \"8\" }"
          " arg { name: \"blocks\" value: \"6\" }");
  }
};

TEST_F(RecomputeTest, LessMemoryMoreOperatorsTheSameBits) {
  const JobPrograms plain = Programs({});
  const JobPrograms again =
      Programs({{"recompute", "true"},
                {"recompute_configs.checkpoints", "relu_4.out,relu_6.out,relu_8.out"}});
  const graph::PassReport report = ReportOf(again, "recompute");
  EXPECT_GT(report.outcome.matched, 0);
  EXPECT_EQ(again.train.ops.size(),
            plain.train.ops.size() + static_cast<size_t>(report.outcome.matched));
  const Ran all = Run(plain.train, 3), less = Run(again.train, 3);
  EXPECT_LT(less.arena_bytes, 0.8 * static_cast<double>(all.arena_bytes));
  EXPECT_EQ(less.params, all.params);
}

TEST_F(RecomputeTest, AnUnknownCheckpointIsNamed) {
  const auto job = StartJob("unknown", {"--mode=local"},
                            {"--recompute=true", "--recompute_configs.checkpoints=relu_99.out"});
  EXPECT_NE(job->Wait(), 0);
  EXPECT_NE(job->Output().find("writes the checkpoint \"relu_99.out\""), std::string::npos)
      << job->Output();
}

TEST_F(RecomputeTest, WithoutCheckpointsNothingIsComputedAgain) {
  const JobPrograms programs = Programs({{"recompute", "true"}});
  EXPECT_EQ(ReportOf(programs, "recompute").outcome.reason,
            "recompute_configs names no checkpoints");
}

}  // namespace
}  // namespace tandem::trainer
