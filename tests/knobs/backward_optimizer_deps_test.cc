// enable_backward_optimizer_op_deps: if the knob is on, no update runs before the last backward
// operator. If the knob is off, updates run as soon as possible and gradients are freed earlier.
// The bits are the same.
#include "gtest/gtest.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class BackwardOptimizerDepsTest : public KnobProgramTest {
 protected:
  static int UpdatesBeforeTheEndOfBackward(const graph::Program& program) {
    int updates = 0, before = 0;
    for (const ops::Op& op : program.ops) {
      if (op.role == ops::OpRole::kOptimize) ++updates;
      if (op.role == ops::OpRole::kBackward) before = updates;
    }
    return before;
  }
};

TEST_F(BackwardOptimizerDepsTest, UpdatesMoveUpAndMemoryFalls) {
  UseModel("zoo: \"mlp\" arg { name: \"hidden\" value: \"256,256,256\" }");
  const JobPrograms last = Programs({});
  const JobPrograms early = Programs({{"enable_backward_optimizer_op_deps", "false"}});
  EXPECT_EQ(UpdatesBeforeTheEndOfBackward(last.train), 0);
  EXPECT_GT(UpdatesBeforeTheEndOfBackward(early.train), 3);
  const Ran kept = Run(last.train, 3), freed = Run(early.train, 3);
  EXPECT_LT(freed.arena_bytes, kept.arena_bytes);
  EXPECT_EQ(freed.params, kept.params);
}

TEST_F(BackwardOptimizerDepsTest, BehindAnAllreduceTheNextOneIsStartedFirst) {
  const graph::Program program = Programs({{"mode", "collective"},
                                           {"fuse_grad_size_in_MB", "-1"},
                                           {"enable_backward_optimizer_op_deps", "false"}})
                                     .train;
  int started = 0, updated = 0;
  for (const ops::Op& op : program.ops) {
    started += op.role == ops::OpRole::kComm ? 2 : 0;  // two gradients per layer
    updated += op.role == ops::OpRole::kOptimize ? 1 : 0;
    if (started < 10) {
      EXPECT_LE(updated, std::max(0, started - 2));
    }
  }
  EXPECT_EQ(updated, 10);
}

}  // namespace
}  // namespace tandem::trainer
