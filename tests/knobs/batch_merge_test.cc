// batch_merge_repeats: a step computes its batch in parts, one after another, with one update and
// one round of communication. Only one part at a time needs memory.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using BatchMergeTest = KnobProgramTest;

TEST_F(BatchMergeTest, MemoryOfAPart) {
  const JobPrograms plain = Programs({}), parts = Programs({{"batch_merge_repeats", "4"}});
  EXPECT_EQ(plain.train.VarsOf(graph::VarKind::kData)[0]->desc.shape[0], 8);
  EXPECT_EQ(parts.train.VarsOf(graph::VarKind::kData)[0]->desc.shape[0], 2);
  EXPECT_LT(Run(parts.train, 4).arena_bytes, Run(plain.train, 1).arena_bytes / 2);
}

TEST_F(BatchMergeTest, OneCommunicationOfAStep) {
  const Overrides knobs = {{"mode", "collective"}, {"batch_merge_repeats", "4"}};
  EXPECT_EQ(Run(Programs(knobs).train, 4).communications, 1);
}

TEST_F(BatchMergeTest, TrainsAsTheWholeBatchDoes) {
  for (const std::string mode : {"local", "collective", "pserver"}) {
    std::vector<std::string> launch = {"--mode=" + mode};
    if (mode == "collective") launch.push_back("--nproc=2");
    if (mode == "pserver") launch.insert(launch.end(), {"--servers=1", "--workers=2"});
    const JobRun whole = RunJob(mode + "-whole", launch, {"--steps_max=30"});
    const JobRun parts =
        RunJob(mode + "-parts", launch, {"--steps_max=30", "--batch_merge_repeats=4"});
    ASSERT_EQ(whole.exit_code, 0) << whole.output;
    ASSERT_EQ(parts.exit_code, 0) << parts.output;
    EXPECT_NEAR(parts.result.loss, whole.result.loss, 1e-3 * whole.result.loss) << mode;
    EXPECT_NE(parts.result.params_sha256, whole.result.params_sha256) << "sums in another order";
  }
}

TEST_F(BatchMergeTest, TheBatchMustDivide) {
  const auto job = StartJob("odd", {"--mode=local"}, {"--batch_merge_repeats=3"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_NE(job->Output().find("cannot be divided into 3 equal parts"), std::string::npos)
      << job->Output();
}

}  // namespace
}  // namespace tandem::trainer
