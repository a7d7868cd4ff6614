// num_iteration_per_drop_scope and local_exe_sub_scope_limit: the executor returns the memory of
// temporaries to the system between runs (a drop). The fetched values and all bits are the same as
// without these knobs.
#include <cstring>

#include "gtest/gtest.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/optimizer.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class DropScopeTest : public KnobProgramTest {
 protected:
  static exec::PlanOptions Options(int runs_per_drop, double limit_mb) {
    JobConfig config;
    auto* strategy = config.mutable_strategy();
    if (runs_per_drop > 0) {
      strategy->mutable_execution_strategy()->set_num_iteration_per_drop_scope(runs_per_drop);
    }
    if (limit_mb >= 0) {
      strategy->mutable_runtime_flags()->set_local_exe_sub_scope_limit(limit_mb);
    }
    const auto options = PlanOptionsOf(config, 2);
    EXPECT_TRUE(options.ok()) << options.status();
    return *options;
  }

  static size_t Resident(const exec::Plan& plan) {
    size_t bytes = 0;
    for (const auto& pages : plan.droppable()) bytes += exec::ResidentBytes(pages);
    return bytes;
  }

  // For each run, whether temporaries are resident after the run; the number of drops; and the loss
  // of the last run.
  struct Trace {
    std::vector<bool> holds;
    int64_t drops = 0;
    float loss = 0;
  };
  Trace RunWith(exec::PlanOptions options, int runs) {
    const graph::Program program = Programs({}).train;
    CpuDevice device;
    exec::Scope scope(device);
    EXPECT_TRUE(exec::Initialize(program, 7, scope).ok());
    scope.Find(graph::kLearningRateVar)->span<float>()[0] = 0.0625f;
    options.fetch = {program.loss};
    const auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) {
      const Tensor tensor = *(*plan)->Get(var->name);
      std::memset(tensor.data(), 0, tensor.bytes());
    }
    Trace trace;
    exec::Executor executor(**plan);
    for (int i = 0; i < runs; ++i) {
      EXPECT_TRUE(executor.Run().ok());
      trace.holds.push_back(Resident(**plan) > 0);
      trace.loss = (*plan)->Get(program.loss)->span<float>()[0];
    }
    trace.drops = executor.drops();
    return trace;
  }
};

TEST_F(DropScopeTest, TemporariesAreGoneBehindEveryNthRun) {
  EXPECT_EQ(RunWith(Options(0, -1), 20).drops, 0) << "not set";
  const Trace third = RunWith(Options(3, -1), 7);
  EXPECT_EQ(third.drops, 2);
  EXPECT_EQ(third.holds, (std::vector<bool>{true, true, false, true, true, false, true}));
  const Trace never = RunWith(Options(1000, -1), 7);
  EXPECT_EQ(never.drops, 0);
  EXPECT_EQ(never.loss, third.loss);
  EXPECT_GT(never.loss, 0) << "what is fetched outlives the drop";
  EXPECT_EQ(RunWith(Options(1, -1), 7).loss, never.loss);
}

TEST_F(DropScopeTest, BeyondTheLimitTheyAreGoneBehindEveryRun) {
  EXPECT_EQ(RunWith(Options(1000, 0.01), 5).drops, 5);
  EXPECT_EQ(RunWith(Options(1000, 1000), 5).drops, 0);
}

TEST_F(DropScopeTest, TheTrainerSaysSoAndLearnsTheSame) {
  const JobRun run =
      RunJob("drop", {"--mode=local"}, {"--steps_max=1", "--num_iteration_per_drop_scope=7"});
  EXPECT_NE(run.output.find(" MB, dropped after every 7 runs"), std::string::npos) << run.output;
  EXPECT_EQ(Sha("every", "local", {"--num_iteration_per_drop_scope=1"}), Sha("plain", "local", {}));
}

}  // namespace
}  // namespace tandem::trainer
