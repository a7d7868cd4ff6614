// memory_optimize (three states) and eager_delete_tensor_gb: when the memory of dead variables is
// reused.
#include "gtest/gtest.h"
#include "proto/strategy.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class MemoryOptimizeTest : public KnobProgramTest {
 protected:
  Ran RunWith(BuildStrategy::MemoryOptimize state, double eager_gb) {
    DistributedStrategy strategy;
    strategy.mutable_build_strategy()->set_memory_optimize(state);
    strategy.mutable_runtime_flags()->set_eager_delete_tensor_gb(eager_gb);
    return Run(Programs({}).train, 2, 0.0625f, {.threads = 2, .memory = MemoryOptionsOf(strategy)});
  }
};

TEST_F(MemoryOptimizeTest, ThreeStatesBesideEagerDeletion) {
  constexpr double kNever = -1, kLate = 1e-4;  // dead variables are freed when they exceed 107 kB
  const Ran on = RunWith(BuildStrategy::On, kNever);
  const Ran unset = RunWith(BuildStrategy::Auto, kNever);
  const Ran off = RunWith(BuildStrategy::Off, kNever);
  EXPECT_EQ(unset.arena_bytes, on.arena_bytes) << "nothing is freed: reuse by default";
  EXPECT_GT(static_cast<double>(off.arena_bytes), 1.5 * static_cast<double>(on.arena_bytes));
  // Memory that is freed late can be reused only late. The state On reuses the memory without
  // waiting for the deletion.
  const Ran late = RunWith(BuildStrategy::Off, kLate);
  EXPECT_LT(late.arena_bytes, off.arena_bytes);
  EXPECT_GT(late.arena_bytes, on.arena_bytes);
  EXPECT_EQ(RunWith(BuildStrategy::Auto, kLate).arena_bytes, late.arena_bytes);
  EXPECT_EQ(RunWith(BuildStrategy::On, kLate).arena_bytes, on.arena_bytes);
  EXPECT_EQ(RunWith(BuildStrategy::Off, 0).arena_bytes, on.arena_bytes) << "freed at once";
  for (const Ran* ran : {&unset, &off, &late}) EXPECT_EQ(ran->params, on.params);
}

TEST_F(MemoryOptimizeTest, TheTrainerSaysWhatItTakes) {
  const auto line = [this](const std::string& name, const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--steps_max=1", "--eager_delete_tensor_gb=-1"};
    all.insert(all.end(), flags.begin(), flags.end());
    const std::string output = RunJob(name, {"--mode=local"}, all).output;
    const size_t at = output.find("memory: ");
    EXPECT_NE(at, std::string::npos) << output;
    return output.substr(at, output.find('\n', at) - at);
  };
  const std::string off = line("off", {"--memory_optimize=false"});
  EXPECT_NE(off, line("on", {"--memory_optimize=true"}));
  EXPECT_EQ(line("unset", {}), line("none", {"--memory_optimize=None"}));
}

}  // namespace
}  // namespace tandem::trainer
