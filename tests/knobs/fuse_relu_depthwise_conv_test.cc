// fuse_relu_depthwise_conv: each depthwise convolution of MobileNet computes the relu before it,
// forward and backward; the parameters keep their bits.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class FuseReluDepthwiseConvTest : public KnobProgramTest {
 protected:
  void SetUp() override {
    KnobProgramTest::SetUp();
    if (!IsSkipped()) {
      UseModel(
          "zoo: \"mobilenet_v1\" arg { name: \"image\" value: \"1,32,32\" }"
          " arg { name: \"stem\" value: \"1\" }");
    }
  }
};

TEST_F(FuseReluDepthwiseConvTest, FewerOperatorsTheSameBits) {
  const JobPrograms plain = Programs({}), fused = Programs({{"fuse_relu_depthwise_conv", "true"}});
  EXPECT_EQ(ReportOf(fused, "fuse_relu_depthwise_conv").outcome.matched, 13);
  EXPECT_EQ(Count(fused.train, "relu"), Count(plain.train, "relu") - 13);
  EXPECT_EQ(Count(fused.train, "relu_grad"), Count(plain.train, "relu_grad") - 13);
  const Ran apart = Run(plain.train, 2), together = Run(fused.train, 2);
  EXPECT_EQ(together.params, apart.params);
  EXPECT_LE(together.arena_bytes, apart.arena_bytes + apart.arena_bytes / 10);
}

}  // namespace
}  // namespace tandem::trainer
