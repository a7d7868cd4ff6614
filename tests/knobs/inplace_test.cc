// enable_inplace: an output uses the memory of an input that is no longer needed, with the same
// bits. An output never overwrites a variable that is fetched, or that a later operator reads.
#include <set>

#include "gtest/gtest.h"
#include "kernels/graph/builder.h"
#include "proto/strategy.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class InplaceTest : public KnobProgramTest {
 protected:
  static exec::PlanOptions Inplace(bool on) {
    DistributedStrategy strategy;
    strategy.mutable_build_strategy()->set_enable_inplace(on);
    return {.threads = 2, .memory = MemoryOptionsOf(strategy)};
  }
};

// Attention over many positions: the scores are the largest tensors, and without the knob softmax
// needs two of them. fused_attention would leave no scores.
TEST_F(InplaceTest, LessMemoryTheSameBits) {
  UseModel(
      "zoo: \"transformer_lm\" arg { name: \"layers\" value: \"1\" }"
      " arg { name: \"width\" value: \"16\" } arg { name: \"heads\" value: \"4\" }");
  const graph::Program program = Programs({{"fused_attention", "false"}}).train;
  const Ran apart = Run(program, 3, 0.0625f, Inplace(false));
  const Ran shared = Run(program, 3, 0.0625f, Inplace(true));
  EXPECT_EQ(apart.inplace, 0u);
  EXPECT_GT(shared.inplace, 5u);
  EXPECT_LT(shared.arena_bytes, apart.arena_bytes);
  EXPECT_EQ(shared.params, apart.params);
  EXPECT_EQ(shared.loss, apart.loss);
}

TEST_F(InplaceTest, TheTrainerSaysWhatItDid) {
  const JobRun run =
      RunJob("inplace", {"--mode=local"}, {"--steps_max=1", "--enable_inplace=true"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("memory: "), std::string::npos) << run.output;
  EXPECT_NE(run.output.find(" in place"), std::string::npos) << run.output;
}

// Runs the whole job in every mode.
TEST_F(InplaceTest, TheSameBitsInEveryMode) {
  for (const char* mode : {"local", "pserver", "collective"}) {
    EXPECT_EQ(Sha(std::string(mode) + "_inplace", mode, {"--enable_inplace=true"}),
              Sha(std::string(mode) + "_apart", mode, {}))
        << mode;
  }
}

}  // namespace
}  // namespace tandem::trainer
