// localsgd in mode pserver (decoupled DiLoCo): trainers with real servers against the arithmetic of
// the papers, which the tests write out, and a job whose trainer is killed.
#include <csignal>
#include <filesystem>
#include <set>

#include "common/tensor/device.h"
#include "gmock/gmock.h"
#include "kernels/exec/executor.h"
#include "proto/job.pb.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"
#include "tests/knobs/knob_programs.h"
#include "tests/support/temp_dir.h"
#include "trainer/files/safetensors.h"
#include "trainer/modes/mode_counts.h"

namespace tandem::trainer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;

constexpr Duration kSoon = std::chrono::seconds(20);

// Trainers of two parameters with four elements, each in its own layer. The tests change the
// parameters instead of an optimizer.
class DecoupledTest : public testing::Test {
 protected:
  struct Trainer {
    CpuDevice device;
    exec::Scope scope{device};
    graph::Program program;
    TrainingMode mode;
    float* Values(const std::string& name) { return scope.Find(name)->span<float>().data(); }
    std::vector<float> Copy(const std::string& name) { return {Values(name), Values(name) + 4}; }
  };

  void Start(graph::FragmentRule rule, int64_t quorum, int trainers = 2,
             pserver::PserverOptions server = {}) {
    if (server.job.empty()) server.job = "job";
    server_ = *pserver::Pserver::Start(server, metrics_);
    PserverOptions options = {.servers = {ToString(server_->endpoint())},
                              .regime = PsSyncMode::kLocalSteps,
                              .local_steps = rule,
                              .quorum = quorum,
                              .min_block_size = 2};
    options.common.job = "job";
    options.common.ranks = trainers;
    for (int rank = 0; rank < trainers; ++rank) {
      options.common.rank = rank;
      trainers_.push_back(std::make_unique<Trainer>());
      Trainer& t = *trainers_.back();
      t.mode = MakePserverMode(options);
      const TensorDesc desc{DType::kF32, Shape{4}};
      std::vector<graph::ParamGrad> grads;
      for (const std::string name : {"a.w", "b.w"}) {
        CHECK(t.program.AddVar({.name = name, .kind = graph::VarKind::kParam, .desc = desc}).ok());
        const std::string grad = name + "@GRAD";
        CHECK(t.program.AddVar({.name = grad, .kind = graph::VarKind::kData, .desc = desc}).ok());
        grads.push_back({name, grad});
      }
      CHECK(t.mode.programs->Distribute(t.program, grads).ok());
      CHECK(exec::Initialize(t.program, 1, t.scope).ok());
      exec::CommNode node{&t.program.ops.back(), {}, {}, {}};
      for (const graph::ParamGrad& pair : grads) {
        node.out.push_back({pair.param, desc, t.Values(pair.param)});
      }
      node.in = node.out;
      CHECK(t.mode.training->Register(node).ok());
      const auto started = t.mode.membership->Join(t.program, t.scope, {}, 0, nullptr);
      CHECK(started.ok()) << started.status();
    }
    first_ = trainers_[0]->Copy("a.w");
    first_b_ = trainers_[0]->Copy("b.w");
  }

  // Makes step `step` of a trainer: moves the parameters by `a` and `b`, then the exchange.
  void Step(int trainer, int64_t step, float a, float b = 0) {
    Trainer& t = *trainers_[static_cast<size_t>(trainer)];
    ASSERT_TRUE(t.mode.steps->BeginStep(step, 1.0f).ok());
    for (int i = 0; i < 4; ++i) {
      t.Values("a.w")[i] += a;
      t.Values("b.w")[i] += b;
    }
    exec::CommDone done;
    t.mode.training->Start(0, step, &done);
    const Status ended = done.Wait(SteadyNow() + kSoon);
    ASSERT_TRUE(ended.ok()) << ended;
  }
  Status Finish(int trainer) {
    return trainers_[static_cast<size_t>(trainer)]->mode.membership->Finish();
  }
  // Returns how far a trainer's parameter has moved since the start of the job.
  std::vector<float> Moved(int trainer, const std::string& name = "a.w") {
    std::vector<float> moved = trainers_[static_cast<size_t>(trainer)]->Copy(name);
    const std::vector<float>& first = name == "a.w" ? first_ : first_b_;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] -= first[i];
    return moved;
  }
  double Pushes() { return metrics_.GetCounter("tandem_pserver_pushes_total", "").Value(); }

  Metrics metrics_;
  std::unique_ptr<pserver::Pserver> server_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
  std::vector<float> first_, first_b_;  // the initial values
};

testing::Matcher<std::vector<float>> AllNear(float value) {
  return Each(testing::FloatNear(value, 1e-5f));
}

constexpr graph::FragmentRule kOuter = {
    .k_steps = 4, .nesterov = true, .learning_rate = 0.5, .momentum = 0.5};

TEST_F(DecoupledTest, ServersMakeAnOuterStepWithTheMeanOfAQuorum) {
  Start(kOuter, 2);
  for (int64_t step = 0; step < 4; ++step) Step(0, step, 1);
  EXPECT_EQ(Pushes(), 1);
  EXPECT_THAT(Moved(0), AllNear(4))
      << "no outer step yet: the trainer continues from its own values";
  for (int64_t step = 0; step < 4; ++step) Step(1, step, 2);
  // The mean pseudo-gradient is -(4 + 8) / 2 = -6, the velocity -6, and the parameters move by
  // 0.5 * (6 + 0.5 * 6).
  EXPECT_THAT(Moved(1), AllNear(4.5f));
  Step(0, 4, 1);
  EXPECT_THAT(Moved(0), AllNear(5.5f)) << "the outer step, and its step since its push";
  for (int64_t step = 5; step < 8; ++step) Step(0, step, 1);
  for (int64_t step = 4; step < 8; ++step) Step(1, step, 0);
  // The mean of -4 and 0 is -2, and the velocity 0.5 * -6 - 2 = -5.
  EXPECT_THAT(Moved(1), AllNear(4.5f + 0.5f * (2 + 0.5f * 5)));
}

TEST_F(DecoupledTest, WithoutAnOuterOptimizerTheParametersBecomeTheMean) {
  Start({.k_steps = 2}, 2);
  for (int64_t step = 0; step < 2; ++step) Step(0, step, 3);
  for (int64_t step = 0; step < 2; ++step) Step(1, step, 1);
  EXPECT_THAT(Moved(1), AllNear(4));
}

TEST_F(DecoupledTest, ATrainerThatStopsHoldsUpNoOther) {
  Start(kOuter, 2);
  for (int64_t step = 0; step < 16; ++step) Step(0, step, 1);
  EXPECT_EQ(Pushes(), 4);
  const std::vector<float> alone = Moved(0);
  EXPECT_GT(alone[0], 4.5f) << "two pushes of one trainer are a quorum too";
  // The first round is that of the test above, with the pseudo-gradients -4 and -4.
  EXPECT_THAT(alone, AllNear(3 + 0.5f * (4 + 0.5f * 6)));
}

TEST_F(DecoupledTest, FragmentsArePushedAtDifferentSteps) {
  graph::FragmentRule rule = kOuter;
  rule.fragments = 2;
  Start(rule, 1);
  for (int64_t step = 0; step < 2; ++step) Step(0, step, 1, 1);
  EXPECT_EQ(Pushes(), 1);
  // The layers are equally large. One of them is pushed after 2 steps, with half the weight, which
  // does not count with a quorum of 1: 0.5 * (2 + 0.5 * 2).
  const bool b_first = Moved(0, "b.w")[0] != 2;
  EXPECT_THAT(Moved(0, b_first ? "b.w" : "a.w"), AllNear(1.5f));
  EXPECT_THAT(Moved(0, b_first ? "a.w" : "b.w"), AllNear(2));
  for (int64_t step = 2; step < 4; ++step) Step(0, step, 1, 1);
  EXPECT_EQ(Pushes(), 2);
  EXPECT_THAT(Moved(0, b_first ? "a.w" : "b.w"), AllNear(3)) << "0.5 * (4 + 0.5 * 4)";
}

TEST_F(DecoupledTest, APushOfFewerStepsHasLessWeight) {
  Start({.k_steps = 4}, 2);
  for (int64_t step = 0; step < 4; ++step) Step(0, step, 1);
  Step(1, 0, 10);
  ASSERT_TRUE(Finish(1).ok());  // pushes the only step of trainer 1
  // The weights are 1 and 1/4: (4 + 10 / 4) / 1.25.
  EXPECT_THAT(Moved(1), AllNear(5.2f));
  ASSERT_TRUE(Finish(0).ok());
  EXPECT_EQ(Pushes(), 2) << "trainer 0 has pushed all its steps";
  EXPECT_THAT(Moved(0), AllNear(5.2f)) << "it ends with the values of the servers";
}

TEST_F(DecoupledTest, StepsAfterAPushWithoutAResultArePushedAtTheEnd) {
  Start({.k_steps = 4}, 2);
  for (int64_t step = 0; step < 5; ++step) Step(0, step, 1);
  ASSERT_TRUE(Finish(0).ok());
  EXPECT_EQ(Pushes(), 2);
  EXPECT_THAT(Moved(0), AllNear((4 + 0.25f * 1) / 1.25f)) << "both pushes are a quorum";
}

TEST_F(DecoupledTest, APushIsFollowedByAtMostFourPulls) {
  Start({.k_steps = 40}, 2);
  for (int64_t step = 0; step < 79; ++step) Step(0, step, 1);
  ModeCounts counts;
  trainers_[0]->mode.steps->AddCounts(&counts);
  EXPECT_EQ(*counts.ps.pushes, 1);
  EXPECT_EQ(*counts.ps.pulls, 4);
}

TEST_F(DecoupledTest, AtTheEndATrainerHasTheServersNewestValues) {
  Start({.k_steps = 2}, 1);
  for (int64_t step = 0; step < 2; ++step) Step(0, step, 1);
  for (int64_t step = 0; step < 2; ++step) Step(1, step, 2);
  EXPECT_THAT(Moved(0), AllNear(2));
  ASSERT_TRUE(Finish(0).ok());
  EXPECT_THAT(Moved(0), AllNear(2 + 4)) << "the outer steps of both trainers";
  for (int64_t step = 2; step < 4; ++step) Step(1, step, 1);
  ASSERT_TRUE(Finish(0).ok());
  EXPECT_THAT(Moved(0), AllNear(2 + 4)) << "those of its last evaluation";
}

TEST_F(DecoupledTest, AfterTheDelayTheStepsSinceThePushStay) {
  graph::FragmentRule rule = kOuter;
  rule.delay = 2;
  Start(rule, 1, 1);
  for (int64_t step = 0; step < 4; ++step) Step(0, step, 1);
  Step(0, 4, 1);
  EXPECT_THAT(Moved(0), AllNear(5)) << "nothing is applied before the delay";
  Step(0, 5, 1);
  EXPECT_THAT(Moved(0), AllNear(3 + 2)) << "the servers moved by 0.5 * (4 + 0.5 * 4)";
  for (int64_t step = 6; step < 8; ++step) Step(0, step, 0);
  ASSERT_TRUE(Finish(0).ok());
  // The second pseudo-gradient is -2, and the velocity 0.5 * -4 - 2.
  EXPECT_THAT(Moved(0), AllNear(3 + 0.5f * (2 + 0.5f * 4)));
}

TEST_F(DecoupledTest, ATrainerLooksAgainForAStepThatCameLate) {
  graph::FragmentRule rule = kOuter;
  rule.k_steps = 8;
  rule.delay = 2;
  Start(rule, 2);
  for (int64_t step = 0; step < 10; ++step) Step(0, step, 1);
  EXPECT_THAT(Moved(0), AllNear(10)) << "only one of two trainers has pushed";
  for (int64_t step = 0; step < 8; ++step) Step(1, step, 0);
  Step(0, 10, 1);
  EXPECT_THAT(Moved(0), AllNear(11));
  Step(0, 11, 1);
  EXPECT_THAT(Moved(0), AllNear(0.5f * (4 + 0.5f * 4) + 4)) << "4 steps since its push";
}

// A server that is stopped between two pushes of a round has the first one in its log. The bits are
// those of a server that was not stopped.
TEST_F(DecoupledTest, ARestartedServerHasTheBeginOfTheRound) {
  graph::FragmentRule rule = kOuter;
  rule.k_steps = 1;
  std::vector<std::vector<float>> moved;
  for (const bool stopped : {false, true}) {
    TempDir dir;
    pserver::PserverOptions logged;
    logged.job = "job";
    logged.data_dir = dir / "server";
    logged.durability = pserver::Durability::kLogged;
    logged.rpc.listen = {.path = dir / "socket"};
    trainers_.clear();
    server_.reset();
    Start(rule, 3, 2, logged);
    for (int64_t round = 0; round < 6; ++round) {
      Step(0, round, 0.1f);
      if (stopped && round % 2 == 1) {
        server_.reset();
        server_ = *pserver::Pserver::Start(logged, metrics_);
      }
      Step(1, round, 0.3f);
    }
    moved.push_back(Moved(1));
  }
  EXPECT_EQ(moved[0], moved[1]);
  EXPECT_NE(moved[0][0], 0);
}

// ---- The knobs ----------------------------------------------------------------------------------

using DecoupledKnobs = KnobProgramTest;

TEST_F(DecoupledKnobs, SetTheRuleOfTheMode) {
  const PserverOptions options =
      PserverModeOptions({{"a_sync", "true"},
                          {"localsgd", "true"},
                          {"localsgd_configs.k_steps", "8"},
                          {"localsgd_configs.fragments", "2"},
                          {"localsgd_configs.delay", "3"},
                          {"localsgd_configs.outer_optimizer", "nesterov"},
                          {"localsgd_configs.quorum", "3"}});
  EXPECT_EQ(options.regime, PsSyncMode::kLocalSteps);
  EXPECT_EQ(options.local_steps.k_steps, 8);
  EXPECT_EQ(options.local_steps.fragments, 2);
  EXPECT_EQ(options.local_steps.delay, 3);
  EXPECT_TRUE(options.local_steps.nesterov);
  EXPECT_EQ(options.quorum, 3);
  EXPECT_EQ(PserverModeOptions({{"a_sync", "true"}, {"localsgd", "true"}}).quorum, 2)
      << "all trainers";
}

TEST_F(DecoupledKnobs, ContradictionsAreRefusedByName) {
  struct Row {
    Args flags;
    const char* message;
  };
  const Row rows[] = {
      {{"--localsgd=true"}, "contradicts a_sync: false"},
      {{"--localsgd=true", "--a_sync=true", "--half_async=true"},
       "localsgd and a_sync_configs.half_async"},
      {{"--localsgd=true", "--a_sync=true", "--a_sync_configs.k_steps=4"},
       "localsgd and a_sync_configs.k_steps"},
      {{"--localsgd=true", "--a_sync=true", "--max_staleness=4"},
       "localsgd and a_sync_configs.max_staleness"},
      {{"--localsgd=true", "--a_sync=true", "--enable_dc_asgd=true"},
       "localsgd and a_sync_configs.enable_dc_asgd"},
      {{"--localsgd=true", "--a_sync=true", "--use_thread_barrier=true"},
       "localsgd and execution_strategy.use_thread_barrier"},
      {{"--localsgd=true", "--a_sync=true", "--localsgd_configs.begin_step=9"},
       "begin_step: 9 has no effect with mode=pserver"},
      {{"--localsgd=true", "--a_sync=true", "--localsgd_configs.merge_factor=0.5"},
       "merge_factor: 0.5 has no effect with mode=pserver"},
  };
  for (const Row& row : rows) {
    const auto job =
        StartJob("refused", {"--mode=pserver", "--workers=2", "--servers=1"}, row.flags);
    EXPECT_EQ(job->Wait(), 2);
    EXPECT_THAT(job->Output(), HasSubstr(row.message));
  }
}

// ---- A job --------------------------------------------------------------------------------------

TEST_F(DecoupledKnobs, AKilledTrainerContinuesAfterItsLastPush) {
  const auto job =
      StartJob("killed", {"--mode=pserver", "--workers=2", "--servers=2", "--max_restarts=3"},
               {"--a_sync=true", "--localsgd=true", "--localsgd_configs.k_steps=10",
                "--localsgd_configs.outer_optimizer=nesterov", "--localsgd_configs.fragments=2",
                "--localsgd_configs.delay=3", "--steps_max=1500", "--log_every_steps=10",
                "--checkpoint.dir=" + Path("ck"), "--checkpoint.every_steps=100"});
  ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) >= 100; })) << job->Output();
  kill(TrainerOf(*job, 1), SIGKILL);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  const std::string log = ReadWholeFile(Path("killed.log/workerlog.1"));
  const size_t resumed = log.find("resumed at step ");
  ASSERT_NE(resumed, std::string::npos) << log;
  EXPECT_GE(std::atoi(log.c_str() + resumed + 16), 20) << "it had pushed its first steps";
  EXPECT_LT(ResultOf("killed").loss, 1.0) << "the job learns";

  std::set<std::string> slots;  // the state in the last checkpoint, by the part after '@'
  CpuDevice device;
  std::string newest;
  for (const auto& entry : std::filesystem::directory_iterator(Path("ck"))) {
    newest = std::max(newest, entry.path().string());
  }
  for (const auto& entry : std::filesystem::directory_iterator(newest)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = ReadSafetensors(entry.path(), device);
    ASSERT_TRUE(file.ok()) << file.status();
    for (const auto& [name, tensor] : file->tensors) {
      if (const size_t at = name.find('@'); at != std::string::npos) slots.insert(name.substr(at));
    }
  }
  EXPECT_THAT(slots, ElementsAre("@velocity")) << "the state of the trainer's own optimizer";
}

}  // namespace
}  // namespace tandem::trainer
