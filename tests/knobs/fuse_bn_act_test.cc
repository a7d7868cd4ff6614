// fuse_bn_act_ops and fuse_bn_add_act_ops: each batch normalisation of a residual network becomes
// one operator with the next relu, and with the second knob also with the addition between both.
// The bits are the same.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class FuseBnActTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (!IsSkipped()) {
      UseModel(
          "zoo: \"resnet18\" arg { name: \"image\" value: \"1,16,16\" }"
          " arg { name: \"stem\" value: \"3\" }");
    }
  }
  static Overrides Knobs(bool act, bool add_act) {
    return {{"fuse_bn_act_ops", act ? "true" : "false"},
            {"fuse_bn_add_act_ops", add_act ? "true" : "false"}};
  }
};

// ResNet-18 has 20 normalisations: 9 with relu, 8 with addition and relu, 3 on shortcuts.
TEST_F(FuseBnActTest, OneOperatorForwardAndOneBackward) {
  const JobPrograms plain = Programs(Knobs(false, false));
  EXPECT_EQ(Count(plain.train, "batch_norm"), 20);
  const JobPrograms act = Programs(Knobs(true, false)), add = Programs(Knobs(false, true));
  const JobPrograms both = Programs(Knobs(true, true));
  EXPECT_EQ(ReportOf(act, "fuse_bn_act_ops").outcome.matched, 9);
  EXPECT_EQ(ReportOf(add, "fuse_bn_add_act_ops").outcome.matched, 8);
  for (const auto& [programs, fused] : {std::pair(&act, 9), {&add, 8}, {&both, 17}}) {
    EXPECT_EQ(Count(programs->train, "fused_bn_add_activation"), fused);
    EXPECT_EQ(Count(programs->train, "fused_bn_add_activation_grad"), fused);
    EXPECT_EQ(Count(programs->train, "batch_norm"), 20 - fused);
  }
  EXPECT_EQ(Count(both.train, "relu") + Count(both.train, "relu_grad"), 0);
  EXPECT_EQ(Count(both.train, "elementwise_add"), 0);
}

TEST_F(FuseBnActTest, TheSameBitsInLessMemory) {
  const Ran plain = Run(Programs(Knobs(false, false)).train, 2);
  const Ran both = Run(Programs(Knobs(true, true)).train, 2);
  EXPECT_EQ(both.params, plain.params);
  EXPECT_EQ(both.loss, plain.loss);
  EXPECT_LT(both.arena_bytes, plain.arena_bytes);
}

// Trains whole jobs with and without fuse_bn_act_ops, which is on by default.
TEST_F(FuseBnActTest, AJobTrainsEitherWay) {
  job_ = Write("synthetic.pbtxt", R"(
name: "images"
model { zoo: "resnet18" arg { name: "image" value: "3,8,8" } arg { name: "stem" value: "3" } }
data { format: "synthetic" synthetic { image: 3 image: 8 image: 8 classes: 10 } }
global_batch_size: 8
steps_max: 3
)");
  const JobRun with = RunJob("with", {"--mode=local"}, {});
  EXPECT_NE(with.output.find("pass use_mkldnn"), std::string::npos) << with.output;
  const JobRun without = RunJob("without", {"--mode=local"}, {"--fuse_bn_add_act_ops=false"});
  EXPECT_EQ(with.result.params_sha256, without.result.params_sha256);
}

}  // namespace
}  // namespace tandem::trainer
