#include "tests/knobs/knob_programs.h"

#include "kernels/exec/executor.h"
#include "kernels/graph/optimizer.h"
#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/modes/make_mode.h"

namespace tandem::trainer {

PserverOptions PserverModeOptions(const Overrides& knobs, JobConfig* effective) {
  JobSources sources;
  sources.overrides = {
      {"mode", "pserver"}, {"model.zoo", "mlp"}, {"data.dir", "x"}, {"batch_size", "8"}};
  sources.overrides.insert(sources.overrides.end(), knobs.begin(), knobs.end());
  StatusOr<EffectiveJob> job = LoadJob(sources, 2);
  CHECK(job.ok()) << job.status();
  if (effective != nullptr) *effective = *job->config;
  RankInfo rank;
  rank.size = 2;
  return PserverOptionsOf(*job->config, rank, CommonOptionsOf(*job->config, rank, {}));
}

EffectiveJob KnobProgramTest::Job(const Overrides& knobs, int workers, int heter_workers) const {
  JobSources sources;
  sources.path = job_;
  sources.overrides = knobs;
  sources.heter_workers = heter_workers;
  auto job = LoadJob(sources, workers);
  EXPECT_TRUE(job.ok()) << job.status();
  return *std::move(job);
}

JobPrograms KnobProgramTest::Programs(const Overrides& knobs, int ranks, int index,
                                      int heter_workers) {
  const EffectiveJob job = Job(knobs, ranks - heter_workers, heter_workers);
  RankInfo rank;
  rank.rank = index;
  rank.size = ranks;
  rank.heter_workers = heter_workers;
  rank.rendezvous = "127.0.0.1:1";
  rank.pservers = {"127.0.0.1:1"};
  const auto mode =
      MakeMode(*job.config, rank, CommonOptionsOf(*job.config, rank, {.job = "secret"}));
  EXPECT_TRUE(mode.ok()) << mode.status();
  auto programs = BuildPrograms(*job.config, "", 8, 8 * rank.workers(), *mode);
  EXPECT_TRUE(programs.ok()) << programs.status();
  return *std::move(programs);
}

int KnobProgramTest::Count(const graph::Program& program, const std::string& type) {
  int count = 0;
  for (const ops::Op& op : program.ops) count += op.type == type ? 1 : 0;
  return count;
}

graph::PassReport KnobProgramTest::ReportOf(const JobPrograms& programs, const std::string& pass) {
  for (const graph::PassReport& report : programs.passes) {
    if (report.name == pass) return report;
  }
  graph::PassReport none;
  none.outcome.reason = "not run";
  return none;
}

namespace {

class WorldOfOne final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode&) override { return 0; }
  void Start(int, int64_t, exec::CommDone* done) override {
    ++started;
    done->Complete(OkStatus());
  }
  Duration timeout() const override { return std::chrono::seconds(1); }
  int started = 0;
};

void Feed(const exec::Plan& plan) {
  for (const graph::Var* var : plan.program().VarsOf(graph::VarKind::kData)) {
    const Tensor tensor = *plan.Get(var->name);
    if (tensor.dtype() == DType::kI64) {
      auto labels = tensor.span<int64_t>();
      for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i % 3);
    } else if (tensor.dtype() == DType::kF32) {
      auto x = tensor.span<float>();
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) / 4.0f - 0.75f;
    }
  }
}

}  // namespace

KnobProgramTest::Ran KnobProgramTest::Run(const graph::Program& program, int steps,
                                          float learning_rate, exec::PlanOptions options) {
  CpuDevice device;
  exec::Scope scope(device);
  WorldOfOne world;
  EXPECT_TRUE(exec::Initialize(program, 7, scope).ok());
  options.fetch = {program.loss};
  auto plan = exec::Plan::Make(program, exec::Backend::Cpu(), scope, &world, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Feed(**plan);
  scope.Find(graph::kLearningRateVar)->span<float>()[0] = learning_rate;
  const Status status = exec::Executor(**plan).Run(steps);
  EXPECT_TRUE(status.ok()) << status;
  Ran ran;
  for (const graph::VarKind kind : {graph::VarKind::kParam, graph::VarKind::kState}) {
    for (const graph::Var* var : program.VarsOf(kind)) {
      if (var->desc.dtype != DType::kF32) continue;
      const auto span = scope.Find(var->name)->span<float>();
      (kind == graph::VarKind::kParam ? ran.params : ran.state)[var->name] = {span.begin(),
                                                                              span.end()};
    }
  }
  ran.arena_bytes = (*plan)->arena_bytes();
  ran.inplace = (*plan)->memory().inplace.size();
  ran.communications = world.started;
  ran.loss = (*plan)->Get(program.loss)->span<float>()[0];
  return ran;
}

void KnobProgramTest::UseModel(const std::string& model) {
  const std::string lenet = "zoo: \"lenet\"";
  std::string text = ReadWholeFile(job_);
  const size_t at = text.find(lenet);
  ASSERT_NE(at, std::string::npos) << text;
  job_ = Write("other.pbtxt", text.replace(at, lenet.size(), model));
}

std::vector<std::string> KnobProgramTest::Launch(const std::string& mode) {
  if (mode == "pserver") return {"--servers=1", "--workers=2"};
  if (mode == "collective") return {"--mode=collective", "--nproc=2"};
  return {"--mode=" + mode};
}

std::string KnobProgramTest::Sha(const std::string& name, const std::string& mode,
                                 const std::vector<std::string>& flags) const {
  std::vector<std::string> args = {"--steps_max=20"};
  args.insert(args.end(), flags.begin(), flags.end());
  return RunJob(name, Launch(mode), args).result.params_sha256;
}

}  // namespace tandem::trainer
