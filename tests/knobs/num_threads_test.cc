// num_threads and enable_sequential_execution: independent operators run concurrently; with the
// second knob they run in program order despite several threads. The bits are those of program
// order in both cases.
#include "common/base/mutex.h"
#include "gtest/gtest.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/builder.h"
#include "proto/job.pb.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

class NumThreadsTest : public KnobProgramTest {};

// ---- Order of operators -------------------------------------------------------------------------

class Order final : public exec::ExecObserver {
 public:
  Status OnStep(const exec::PlanStep& step, int64_t, Time, Time) override {
    ops.push_back(step.op);
    return OkStatus();
  }
  std::vector<int> ops;
};

// State of a test with two kernels. The kernel with attribute `scale` 1 waits until the kernel
// with `scale` 2 runs, for at most `patience`. `met`: whether that happened.
struct Meeting {
  // Time for which the first operator waits for the second. On a busy machine a thread that may run
  // can wait for long; an operator that must not run is awaited for a second.
  Duration patience;
  Mutex mu;
  CondVar changed;
  bool second_ran TD_GUARDED_BY(mu) = false, met TD_GUARDED_BY(mu) = false;
};
Meeting* g_meeting = nullptr;  // the Meeting object of the running test

struct Role {
  double scale;
};

Status Meet(Role& role, const ops::KernelArgs& args) {
  *static_cast<float*>(args.out[0]) = *static_cast<const float*>(args.in[0]);
  Meeting& m = *g_meeting;
  MutexLock lock(m.mu);
  if (role.scale == 2) {
    m.second_ran = true;
    m.changed.NotifyAll();
  }
  if (role.scale == 1) {
    const Time deadline = SteadyNow() + m.patience;
    while (!m.second_ran && m.changed.WaitUntil(m.mu, deadline)) {
    }
    m.met = m.second_ran;
  }
  return OkStatus();
}

StatusOr<ops::Kernel> PrepareMeet(const ops::OpView& view, const ops::PrepareContext&) {
  return ops::MakeKernel<Role, Meet>(Role{view.attr<double>("scale")});
}

const exec::BackendModule kMeetingModule = {
    .abi = exec::BackendModule::kAbi,
    .name = "meeting",
    .device_count = []() -> StatusOr<int> { return 1; },
    .make_device = [](int, const DeviceMemoryOptions&) -> StatusOr<std::unique_ptr<Device>> {
      return std::unique_ptr<Device>(std::make_unique<CpuDevice>());
    },
    .kernels = []() -> std::span<const ops::KernelRegistration> {
      static const std::vector<ops::KernelRegistration> rows = {
          {"scale", {{"meeting", PrepareMeet}}}};
      return rows;
    },
};

// Result of RunBranches, which runs a program with two branches: x -> a (scale 1) -> b, and x -> c
// (scale 2). The operator of c is the last in the program and depends only on x.
struct BranchRun {
  bool met;
  std::vector<int> order;
};
BranchRun RunBranches(int num_threads, bool sequential) {
  graph::Program program;
  EXPECT_TRUE(
      program.AddVar({.name = "x", .kind = graph::VarKind::kData, .desc = {DType::kF32, {1, 1}}})
          .ok());
  const auto add = [&](const char* in, const char* out, double scale) {
    EXPECT_TRUE(
        graph::AppendOp(
            program,
            {.type = "scale", .inputs = {{in}}, .outputs = {{out}}, .attrs = {{"scale", scale}}})
            .ok());
  };
  add("x", "a", 1);
  add("a", "b", 3);
  add("x", "c", 2);
  JobConfig config;
  config.mutable_strategy()->mutable_execution_strategy()->set_num_threads(num_threads);
  config.mutable_strategy()->mutable_build_strategy()->set_enable_sequential_execution(sequential);
  auto options = PlanOptionsOf(config, 1);
  EXPECT_TRUE(options.ok()) << options.status();
  options->fetch = {"b", "c"};
  // Without reuse of memory, the operator of c need not wait for the memory of a.
  options->memory = {.reuse = false, .eager_delete_bytes = -1};
  const exec::Backend backend = exec::Backend::Of(PlaceKind::kCpu, kMeetingModule);
  CpuDevice device;
  exec::Scope scope(device);
  const auto plan = exec::Plan::Make(program, backend, scope, nullptr, *options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Meeting meeting{.patience = std::chrono::seconds(num_threads > 1 && !sequential ? 20 : 1)};
  g_meeting = &meeting;
  Order order;
  exec::Executor executor(**plan);
  executor.SetObserver(&order);
  EXPECT_TRUE(executor.Run().ok());
  const std::vector<int> first = std::exchange(order.ops, {});
  bool met;
  {
    MutexLock lock(meeting.mu);
    met = meeting.met;
  }
  if (plan.value()->num_threads() > 1) return {met, first};
  EXPECT_TRUE(executor.Run(3).ok());  // later runs repeat the order of the first run
  EXPECT_EQ(order.ops.size(), 3 * first.size());
  for (size_t i = 0; i < order.ops.size(); ++i) EXPECT_EQ(order.ops[i], first[i % first.size()]);
  return {met, first};
}

TEST_F(NumThreadsTest, IndependentOperatorsMeetUnlessTheProgramsOrderIsKept) {
  const std::vector<int> program_order = {0, 1, 2};
  const BranchRun flow = RunBranches(8, false);
  EXPECT_TRUE(flow.met) << "the third operator runs beside the first";
  EXPECT_EQ(flow.order.size(), 3u);
  EXPECT_NE(flow.order, program_order);
  for (const auto& [threads, sequential] : {std::pair(8, true), std::pair(1, false)}) {
    const BranchRun ordered = RunBranches(threads, sequential);
    EXPECT_FALSE(ordered.met) << threads;
    EXPECT_EQ(ordered.order, program_order) << threads;
  }
}

// ---- Bits of the results ------------------------------------------------------------------------

TEST_F(NumThreadsTest, TheBitsOfProgramOrder) {
  UseModel(
      "zoo: \"residual_cnn\" arg { name: \"channels\" value: \"8\" }"
      " arg { name: \"blocks\" value: \"3\" }");
  for (const char* mode : {"local", "collective"}) {
    const graph::Program program = Programs({{"mode", mode}, {"fuse_grad_size_in_MB", "-1"}}).train;
    const auto ordered = KnobProgramTest::Run(program, 4);
    for (const int n : {2, 4}) {
      exec::PlanOptions options = {.threads = 2, .num_threads = n};
      options.memory.inplace = n == 4;
      const auto flow = KnobProgramTest::Run(program, 4, 0.0625f, options);
      EXPECT_EQ(flow.params, ordered.params) << mode << ", " << n << " threads";
      EXPECT_EQ(flow.loss, ordered.loss) << mode << ", " << n << " threads";
      EXPECT_EQ(flow.communications, ordered.communications);
    }
  }
}

TEST_F(NumThreadsTest, FromTheKnobToTheTrainerInEveryMode) {
  const JobRun run = RunJob("two", {"--mode=local"}, {"--steps_max=1", "--num_threads=0"});
  EXPECT_NE(run.output.find("schedule: by data dependencies, num_threads 2"), std::string::npos)
      << run.output;
  const JobRun sequential =
      RunJob("sequential", {"--mode=local"},
             {"--steps_max=1", "--num_threads=4", "--enable_sequential_execution=true"});
  EXPECT_NE(sequential.output.find("schedule: the order of the program"), std::string::npos)
      << sequential.output;
  for (const char* mode : {"local", "pserver", "collective"}) {
    const std::string name = mode;
    EXPECT_EQ(Sha(name + "_flow", mode, {"--num_threads=3"}), Sha(name + "_order", mode, {}))
        << mode;
  }
}

}  // namespace
}  // namespace tandem::trainer
