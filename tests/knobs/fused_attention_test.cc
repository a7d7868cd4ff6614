// fused_attention: the attention of a transformer becomes one operator. The loss is the same up to
// rounding, and memory grows linearly with the sequence.
#include "gtest/gtest.h"
#include "kernels/graph/builder.h"
#include "proto/strategy.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class FusedAttentionTest : public KnobProgramTest {
 protected:
  void UseTransformer(int64_t sequence) {
    UseModel(
        "zoo: \"transformer_lm\" arg { name: \"layers\" value: \"2\" }"
        " arg { name: \"width\" value: \"16\" } arg { name: \"heads\" value: \"4\" }"
        " arg { name: \"sequence\" value: \"" +
        std::to_string(sequence) + "\" }");
  }
};

TEST_F(FusedAttentionTest, FromTheKnobToTheProgram) {
  UseTransformer(96);
  const JobPrograms fused = Programs({}), plain = Programs({{"fused_attention", "false"}});
  EXPECT_EQ(ReportOf(fused, "fused_attention").outcome.matched, 2);
  EXPECT_EQ(ReportOf(plain, "fused_attention").outcome.reason, "not run");
  EXPECT_EQ(Count(fused.train, "fused_attention"), 2);
  EXPECT_EQ(Count(fused.train, "fused_attention_grad"), 2);
  EXPECT_EQ(Count(fused.train, "softmax"), 0);
  EXPECT_EQ(Count(plain.train, "softmax"), 2);
  const Ran one = Run(fused.train, 3), many = Run(plain.train, 3);
  EXPECT_NEAR(one.loss, many.loss, 1e-4f * many.loss);
  EXPECT_LT(one.arena_bytes, many.arena_bytes);
}

TEST_F(FusedAttentionTest, RecomputeAndAmpKnowTheOperator) {
  UseTransformer(96);
  const float plain = Run(Programs({}).train, 3).loss;
  const JobPrograms again = Programs({{"recompute", "true"}});
  EXPECT_GE(Count(again.train, "fused_attention"), 2);
  EXPECT_EQ(Run(again.train, 3).loss, plain);
  const JobPrograms half = Programs({{"amp", "true"}, {"use_dynamic_loss_scaling", "false"}});
  EXPECT_NEAR(Run(half.train, 3).loss, plain, 0.03f * plain);
}

}  // namespace
}  // namespace tandem::trainer
