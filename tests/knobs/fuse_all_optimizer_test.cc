// fuse_all_optimizer_ops: one operator does all updates of a step; the parameters keep their bits.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using FuseAllOptimizerTest = KnobProgramTest;

TEST_F(FuseAllOptimizerTest, TenUpdatesBecomeOne) {
  for (const char* type : {"sgd", "momentum", "adam"}) {
    const Overrides base = {{"optimizer.type", type}};
    Overrides fused = base;
    fused.emplace_back("fuse_all_optimizer_ops", "true");
    const JobPrograms plain = Programs(base), one = Programs(fused);
    EXPECT_EQ(Count(plain.train, type), 10);
    EXPECT_EQ(Count(one.train, type), 0);
    EXPECT_EQ(Count(one.train, "fused_elementwise"), 1);
    EXPECT_EQ(one.train.ops.back().body.size(), 10u);
    EXPECT_EQ(one.train.ops.size() + 9, plain.train.ops.size());
  }
}

TEST_F(FuseAllOptimizerTest, TheSameBits) {
  for (const char* type : {"sgd", "momentum", "adam"}) {
    const std::string optimizer = std::string("--optimizer.type=") + type;
    EXPECT_EQ(
        Sha(std::string("fused-") + type, "local", {optimizer, "--fuse_all_optimizer_ops=true"}),
        Sha(std::string("plain-") + type, "local", {optimizer}));
  }
  EXPECT_EQ(Sha("fused-two", "collective", {"--fuse_all_optimizer_ops=true"}),
            Sha("plain-two", "collective", {}));
}

TEST_F(FuseAllOptimizerTest, OnPserversThereIsNothingToFuse) {
  const JobPrograms programs =
      Programs({{"mode", "pserver"}, {"fuse_all_optimizer_ops", "true"}}, 2);
  const graph::PassReport report = ReportOf(programs, "fuse_all_optimizer_ops");
  EXPECT_EQ(report.outcome.matched, 0);
  EXPECT_NE(report.outcome.reason.find("pservers"), std::string::npos) << report.outcome.reason;
  EXPECT_FALSE(report.by_default);
}

}  // namespace
}  // namespace tandem::trainer
