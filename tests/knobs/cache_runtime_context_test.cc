// cache_runtime_context: Tandem's plans always do what this knob requests in Paddle. Therefore the
// trainer only prints a note. The addresses of variables must not change after the plan is made.
#include <cstring>

#include "gtest/gtest.h"
#include "kernels/exec/executor.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using CacheRuntimeContextTest = KnobProgramTest;

TEST_F(CacheRuntimeContextTest, IsReportedAsAlwaysSo) {
  const JobRun run =
      RunJob("cached", {"--mode=local"}, {"--steps_max=1", "--cache_runtime_context=true"});
  EXPECT_EQ(run.exit_code, 0) << run.output;
  EXPECT_NE(run.output.find("pass cache_runtime_context: not applied: has no effect"),
            std::string::npos)
      << run.output;
}

TEST_F(CacheRuntimeContextTest, APlanLooksVariablesUpOnce) {
  const graph::Program program = Programs({}).train;
  CpuDevice device;
  exec::Scope scope(device);
  ASSERT_TRUE(exec::Initialize(program, 7, scope).ok());
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, nullptr, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto addresses = [&plan] {
    std::vector<const void*> found;
    for (const exec::PlanStep& step : (*plan)->steps()) found.push_back(step.args.in[0]);
    return found;
  };
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData)) {
    const Tensor input = *(*plan)->Get(var->name);
    std::memset(input.data(), 0, input.bytes());
  }
  const auto before = addresses();
  exec::Executor executor(**plan);
  ASSERT_TRUE(executor.Run(2).ok());
  EXPECT_EQ(addresses(), before);
  bool updates_in_place = false;
  for (const exec::PlanStep& step : (*plan)->steps()) {
    updates_in_place |= step.args.in[0] == scope.Find("fc_0.w")->data();
  }
  EXPECT_TRUE(updates_in_place) << "steps hold the scope's own memory";
}

}  // namespace
}  // namespace tandem::trainer
