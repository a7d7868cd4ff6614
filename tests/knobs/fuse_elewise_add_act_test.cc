// fuse_elewise_add_act_ops: each addition of a residual network and the relu after it become one
// operator, forward and backward. The parameters keep their bits.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class FuseElewiseAddActTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (!IsSkipped()) UseModel("zoo: \"residual_cnn\" arg { name: \"channels\" value: \"8,16\" }");
  }
};

TEST_F(FuseElewiseAddActTest, OneOperatorForwardAndOneBackward) {
  const JobPrograms plain = Programs({}), fused = Programs({{"fuse_elewise_add_act_ops", "true"}});
  const int additions = Count(plain.train, "elementwise_add");
  ASSERT_GT(additions, 0);
  EXPECT_EQ(Count(fused.train, "elementwise_add"), 0);
  EXPECT_EQ(Count(fused.train, "elementwise_add_grad"), 0);
  EXPECT_EQ(Count(fused.train, "fused_elemwise_activation"), additions);
  EXPECT_EQ(Count(fused.train, "fused_elemwise_activation_grad"), additions);
  EXPECT_EQ(ReportOf(fused, "fuse_elewise_add_act_ops").outcome.matched, additions);
  EXPECT_EQ(static_cast<int>(fused.train.ops.size()),
            static_cast<int>(plain.train.ops.size()) - 2 * additions);
}

TEST_F(FuseElewiseAddActTest, TheSameBits) {
  EXPECT_EQ(Sha("fused", "local", {"--fuse_elewise_add_act_ops=true"}), Sha("plain", "local", {}));
}

}  // namespace
}  // namespace tandem::trainer
