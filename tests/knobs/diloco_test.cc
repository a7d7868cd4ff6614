// outer_optimizer, outer_learning_rate, outer_momentum, fragments, delay and merge_factor of
// localsgd: DiLoCo and Streaming DiLoCo against a reference that the test computes, resumed jobs,
// and the bytes that a step sends.
#include <csignal>
#include <thread>

#include "collective/communicator.h"
#include "collective/host/inproc.h"
#include "gmock/gmock.h"
#include "kernels/exec/executor.h"
#include "kernels/graph/distribute/fragments.h"
#include "kernels/graph/optimizer.h"
#include "tests/knobs/knob_programs.h"
#include "trainer/modes/collective_mode.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;
using Values = std::map<std::string, std::vector<float>>;

const Args kTwoRanks = {"--mode=collective", "--nproc=2"};
constexpr float kInnerRate = 0.0625f;
constexpr int kRanks = 2;

// Writes the batch of one rank for one step into the data variables of the plan.
void Feed(const exec::Plan& plan, int rank, int64_t step) {
  const auto shift = static_cast<size_t>(3 * step + 5 * rank);
  for (const graph::Var* var : plan.program().VarsOf(graph::VarKind::kData)) {
    const Tensor tensor = *plan.Get(var->name);
    if (tensor.dtype() == DType::kI64) {
      auto labels = tensor.span<int64_t>();
      for (size_t i = 0; i < labels.size(); ++i) {
        labels[i] = static_cast<int64_t>((i + shift) % 3);
      }
    } else if (tensor.dtype() == DType::kF32) {
      auto x = tensor.span<float>();
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i + shift) % 7) / 4 - 0.75f;
    }
  }
}

// Returns the names of the parameters of each fragment.
std::vector<std::vector<std::string>> NamesOfFragments(const graph::Program& program,
                                                       const std::vector<std::string>& params,
                                                       int count) {
  std::vector<graph::ParamGrad> pairs;
  for (const std::string& param : params) pairs.push_back({param, "", ""});
  const auto fragments = graph::SplitIntoFragments(program, pairs, count);
  EXPECT_TRUE(fragments.ok()) << fragments.status();
  std::vector<std::vector<std::string>> names;
  for (const auto& fragment : fragments.value()) {
    auto& own = names.emplace_back();
    for (const graph::ParamGrad& pair : fragment) own.push_back(pair.param);
  }
  return names;
}

// A training program with its scope and executor, on the CPU with one thread.
class Learner {
 public:
  Learner(graph::Program program, exec::CommHandler* comm) : program_(std::move(program)) {
    EXPECT_TRUE(exec::Initialize(program_, 7, scope_).ok());
    exec::PlanOptions options = {.threads = 1};
    options.fetch = {program_.loss};
    auto plan = exec::Plan::Make(program_, exec::Backend::Cpu(), scope_, comm, options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    executor_ = std::make_unique<exec::Executor>(*plan_);
  }
  Status Step(int rank, int64_t step, StepHooks* hooks) {
    return executor_->Run(1, [&](int) -> Status {
      Feed(*plan_, rank, step);
      if (hooks != nullptr) return hooks->BeginStep(step, kInnerRate);
      scope_.Find(graph::kLearningRateVar)->span<float>()[0] = kInnerRate;
      return OkStatus();
    });
  }
  std::span<float> Span(const std::string& var) { return scope_.Find(var)->span<float>(); }
  std::vector<float> Copy(const std::string& var) { return {Span(var).begin(), Span(var).end()}; }
  std::vector<std::string> Params() const {
    std::vector<std::string> names;
    for (const graph::Var* var : program_.VarsOf(graph::VarKind::kParam)) {
      names.push_back(var->name);
    }
    return names;
  }
  const graph::Program& program() const { return program_; }
  exec::Scope& scope() { return scope_; }

 private:
  CpuDevice device_;
  exec::Scope scope_{device_};
  const graph::Program program_;
  std::unique_ptr<exec::Plan> plan_;
  std::unique_ptr<exec::Executor> executor_;
};

// The reference: all ranks in one loop, with the arithmetic of the papers written out.
class Reference {
 public:
  // `fragments`: the names of the parameters of each fragment.
  Reference(const graph::Program& local, graph::FragmentRule rule,
            std::vector<std::vector<std::string>> fragments)
      : rule_(rule), fragments_(std::move(fragments)), means_(fragments_.size()) {
    for (int r = 0; r < kRanks; ++r) ranks_.push_back(std::make_unique<Learner>(local, nullptr));
    for (const std::string& param : ranks_[0]->Params()) outer[param] = ranks_[0]->Copy(param);
  }

  void Run(int steps) {
    for (int64_t n = 1; n <= steps; ++n) {
      for (int r = 0; r < kRanks; ++r) EXPECT_TRUE(ranks_[r]->Step(r, n - 1, nullptr).ok());
      for (int p = 0; p < rule_.fragments; ++p) Synchronise(p, n);
    }
  }
  std::vector<float> Param(int rank, const std::string& param) { return ranks_[rank]->Copy(param); }

  Values outer;

 private:
  bool Due(int p, int64_t n) const {
    return n > rule_.begin_step &&
           (n - rule_.begin_step + p * rule_.k_steps / rule_.fragments) % rule_.k_steps == 0;
  }
  void Synchronise(int p, int64_t n) {
    const bool warm = n <= rule_.begin_step;
    for (const std::string& param : fragments_[p]) {
      std::vector<float>& mean = means_[p][param];
      if (warm || Due(p, n)) {
        const auto first = ranks_[0]->Span(param), second = ranks_[1]->Span(param);
        mean.resize(first.size());
        for (size_t i = 0; i < mean.size(); ++i) mean[i] = 0.5f * first[i] + 0.5f * second[i];
      }
      if (warm) {
        outer[param] = mean;
        for (auto& rank : ranks_) std::copy(mean.begin(), mean.end(), rank->Span(param).begin());
      } else if (Due(p, n - rule_.delay)) {
        Apply(param, mean);
      }
    }
  }
  void Apply(const std::string& param, const std::vector<float>& mean) {
    std::vector<float> result = mean;
    std::vector<float>& velocity = velocity_[param];
    velocity.resize(mean.size());
    for (size_t i = 0; rule_.nesterov && i < mean.size(); ++i) {
      const double gradient = outer[param][i] - mean[i];
      velocity[i] = static_cast<float>(rule_.momentum * velocity[i] + gradient);
      const double change = rule_.learning_rate * (gradient + rule_.momentum * velocity[i]);
      result[i] = outer[param][i] = static_cast<float>(outer[param][i] - change);
    }
    for (auto& rank : ranks_) {
      auto own = rank->Span(param);
      for (size_t i = 0; i < own.size(); ++i) {
        own[i] =
            static_cast<float>(rule_.merge_factor * own[i] + (1 - rule_.merge_factor) * result[i]);
      }
    }
  }

  const graph::FragmentRule rule_;
  const std::vector<std::vector<std::string>> fragments_;
  std::vector<std::unique_ptr<Learner>> ranks_;
  std::vector<Values> means_;
  Values velocity_;
};

class DilocoTest : public KnobProgramTest {
 protected:
  static Overrides Knobs(const graph::FragmentRule& rule) {
    const std::string at = "localsgd_configs.";
    return {{"mode", "collective"},
            {"localsgd", "true"},
            {at + "k_steps", std::to_string(rule.k_steps)},
            {at + "begin_step", std::to_string(rule.begin_step)},
            {at + "fragments", std::to_string(rule.fragments)},
            {at + "delay", std::to_string(rule.delay)},
            {at + "merge_factor", std::to_string(rule.merge_factor)},
            {at + "outer_learning_rate", std::to_string(rule.learning_rate)},
            {at + "outer_momentum", std::to_string(rule.momentum)},
            {at + "outer_optimizer", rule.nesterov ? "nesterov" : "none"}};
  }

  // Runs `steps` steps on two ranks and compares them with the reference.
  void ExpectReference(const graph::FragmentRule& rule, int steps) {
    const EffectiveJob job = Job(Knobs(rule), kRanks);
    auto world = collective::MakeInprocCommunicators(kRanks);
    std::vector<std::unique_ptr<Learner>> learners(kRanks);
    std::vector<TrainingMode> modes;
    for (int r = 0; r < kRanks; ++r) {
      RankInfo rank;
      rank.rank = r;
      rank.size = kRanks;
      std::vector<std::unique_ptr<collective::Communicator>> own;
      own.push_back(std::move(world[static_cast<size_t>(r)]));
      modes.push_back(MakeCollectiveMode(
          CollectiveOptionsOf(*job.config, rank, CommonOptionsOf(*job.config, rank, {})),
          std::move(own)));
      auto programs = BuildPrograms(*job.config, "", 8, 8 * kRanks, modes.back());
      ASSERT_TRUE(programs.ok()) << programs.status();
      learners[r] = std::make_unique<Learner>(programs->train, modes.back().training);
    }
    std::vector<std::thread> threads;
    for (int r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        const auto next = modes[r].membership->Join(learners[r]->program(), learners[r]->scope(),
                                                    {}, 0, [] { return false; });
        EXPECT_TRUE(next.ok()) << next.status();
        for (int64_t step = 0; step < steps; ++step) {
          const Status status = learners[r]->Step(r, step, modes[r].steps);
          EXPECT_TRUE(status.ok()) << status;
        }
        EXPECT_TRUE(modes[r].membership->Finish().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();

    const graph::Program local = Programs({}).train;
    Reference reference(local, rule,
                        NamesOfFragments(local, learners[0]->Params(), rule.fragments));
    reference.Run(steps);
    for (const std::string& param : learners[0]->Params()) {
      for (int r = 0; r < kRanks; ++r) {
        ExpectNear(learners[r]->Copy(param), reference.Param(r, param), param);
      }
      if (!rule.nesterov) continue;
      const std::vector<float> outer = learners[0]->Copy(param + "@outer");
      EXPECT_EQ(outer, learners[1]->Copy(param + "@outer")) << param;
      EXPECT_EQ(learners[0]->Copy(param + "@outer_velocity"),
                learners[1]->Copy(param + "@outer_velocity"));
      ExpectNear(outer, reference.outer.at(param), param + "@outer");
    }
  }
  static void ExpectNear(const std::vector<float>& got, const std::vector<float>& want,
                         const std::string& name) {
    ASSERT_EQ(got.size(), want.size()) << name;
    for (size_t i = 0; i < got.size(); ++i) {
      // A rounding of the first average grows from step to step: 3e-8 after 3 steps, 1.1e-5 after
      // 15 on a processor with AVX2.
      ASSERT_NEAR(got[i], want[i], 3e-5 + 1e-5 * std::abs(want[i])) << name << "[" << i << "]";
    }
  }

  // Returns the result of a job of two ranks with checkpoints in `store`.
  JobRun Two(const std::string& name, const std::string& store, int steps, int every,
             const Args& knobs) const {
    Args args = {"--localsgd=true", "--checkpoint.dir=" + Path(store),
                 "--checkpoint.every_steps=" + std::to_string(every),
                 "--steps_max=" + std::to_string(steps)};
    args.insert(args.end(), knobs.begin(), knobs.end());
    return RunJob(name, kTwoRanks, args);
  }
};

TEST_F(DilocoTest, TakesTheOuterSteps) {
  ExpectReference({.k_steps = 3, .begin_step = 0, .nesterov = true}, 10);
  ExpectReference(
      {.k_steps = 2, .begin_step = 3, .nesterov = true, .learning_rate = 0.4, .momentum = 0.5}, 10);
}

TEST_F(DilocoTest, AveragesFragmentsAtTheirOwnSteps) {
  ExpectReference({.k_steps = 6, .begin_step = 1, .fragments = 3, .nesterov = true}, 15);
  ExpectReference({.k_steps = 5, .begin_step = 0, .fragments = 4}, 12);
}

TEST_F(DilocoTest, MergesWhatArrivesLater) {
  ExpectReference({.k_steps = 6,
                   .begin_step = 2,
                   .fragments = 3,
                   .delay = 3,
                   .merge_factor = 0.5,
                   .nesterov = true},
                  18);
  ExpectReference({.k_steps = 4, .begin_step = 0, .delay = 3, .merge_factor = 0.25}, 13);
}

// A communicator of rank 0 of two ranks, whose operations end when the test calls End.
class HeldCommunicator final : public collective::Communicator {
 public:
  class HeldWork final : public collective::Work {
   public:
    Status Wait(Time) override { return OkStatus(); }
    void OnDone(std::function<void(const Status&)> done) override { done_ = std::move(done); }
    bool finished() const override { return false; }
    void End() const { done_(OkStatus()); }

   private:
    std::function<void(const Status&)> done_;
  };
  int rank() const override { return 0; }
  int size() const override { return 2; }
  const std::string& name() const override { return name_; }
  Status Health() const override { return OkStatus(); }
  std::shared_ptr<collective::Work> Start(collective::Collective) override {
    works.push_back(std::make_shared<HeldWork>());
    return works.back();
  }
  void Abort(const std::string&) override {}
  std::vector<std::shared_ptr<HeldWork>> works;

 private:
  const std::string name_ = "held";
};

// Registers an operator for the variable "v@mean" with the value `data`.
StatusOr<int> Register(exec::CommHandler& handler, const ops::Op& op, float* data) {
  exec::CommNode node{.op = &op, .in = {}, .out = {}, .place = {}};
  node.out.push_back({"v@mean", {DType::kF32, {1}}, data});
  return handler.Register(node);
}

// The operator that begins an average ends at once, so that the step continues. The operator that
// ends it waits.
TEST(DilocoOverlap, TheBeginOfAnAverageDoesNotWait) {
  CollectiveOptions options;
  options.common.ranks = 2;
  std::vector<std::unique_ptr<collective::Communicator>> world;
  world.push_back(std::make_unique<HeldCommunicator>());
  const auto& held = static_cast<const HeldCommunicator&>(*world[0]);
  const TrainingMode mode = MakeCollectiveMode(options, std::move(world));
  float data = 1;
  ops::Op begin, end;
  begin.type = "c_allreduce_begin";
  end.type = "c_allreduce_end";
  EXPECT_THAT(Register(*mode.training, end, &data).status().message(),
              HasSubstr("no c_allreduce_begin before it has the same variables [TD1205]"));
  const auto first = Register(*mode.training, begin, &data);
  const auto second = Register(*mode.training, end, &data);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  exec::CommDone begun, ended;
  mode.training->Start(*first, 0, &begun);
  EXPECT_EQ(begun.Wait(SteadyNow()), OkStatus());
  ASSERT_EQ(held.works.size(), 1u);
  mode.training->Start(*second, 3, &ended);
  EXPECT_EQ(ended.Wait(SteadyNow()).code(), StatusCode::kDeadlineExceeded);
  held.works[0]->End();
  EXPECT_EQ(ended.Wait(SteadyNow()), OkStatus());
}

// Without the new knobs the program is the program of localsgd.
TEST_F(DilocoTest, NoneIsTheAverage) {
  const Overrides plain = {
      {"mode", "collective"}, {"localsgd", "true"}, {"localsgd_configs.k_steps", "4"}};
  Overrides none = plain;
  none.insert(none.end(), {{"localsgd_configs.outer_optimizer", "none"},
                           {"localsgd_configs.fragments", "1"},
                           {"localsgd_configs.delay", "0"}});
  EXPECT_EQ(graph::Dump(Programs(none, 2).train), graph::Dump(Programs(plain, 2).train));
}

TEST_F(DilocoTest, FragmentsAreLayersOfAboutEqualSize) {
  graph::Program program;
  std::vector<std::string> params;
  std::vector<graph::ParamGrad> pairs;
  const std::pair<const char*, int64_t> sizes[] = {
      {"a.w", 50}, {"b.w", 40}, {"c.w", 90}, {"a.b", 10}, {"d.w", 60}};
  for (const auto& [name, n] : sizes) {
    const Status added =
        program.AddVar({.name = name, .kind = graph::VarKind::kParam, .desc = {DType::kF32, {n}}});
    ASSERT_TRUE(added.ok()) << added;
    params.push_back(name);
    pairs.push_back({name, "", ""});
  }
  EXPECT_THAT(NamesOfFragments(program, params, 1), ElementsAre(params));
  // Layer c has 90 elements, layers a and d have 60 each, and layer b has 40.
  using Names = std::vector<std::string>;
  EXPECT_THAT(NamesOfFragments(program, params, 2),
              ElementsAre(Names{"b.w", "c.w"}, Names{"a.w", "a.b", "d.w"}));
  EXPECT_THAT(NamesOfFragments(program, params, 4),
              ElementsAre(Names{"c.w"}, Names{"a.w", "a.b"}, Names{"d.w"}, Names{"b.w"}));
  EXPECT_THAT(std::string(graph::SplitIntoFragments(program, pairs, 5).status().message()),
              HasSubstr("the number of layers with parameters, which is 4 [TD1104]"));
}

// A checkpoint has outer parameters, momentum, the averages in flight, and the parameters and
// optimizer state of each rank. At step 11, one of the three fragments is in flight.
TEST_F(DilocoTest, ResumesWithTheSameBits) {
  const Args outer = {"--localsgd_configs.k_steps=4",
                      "--localsgd_configs.outer_optimizer=nesterov"};
  const Args streams = {"--localsgd_configs.k_steps=6", "--localsgd_configs.fragments=3",
                        "--localsgd_configs.delay=2", "--localsgd_configs.merge_factor=0.5",
                        "--localsgd_configs.outer_optimizer=nesterov"};
  int number = 0;
  for (const Args& knobs : {outer, streams}) {
    const std::string own = std::to_string(number++);
    const JobResult whole = Two("whole" + own, "a" + own, 22, 11, knobs).result;
    Two("first" + own, "b" + own, 11, 11, knobs);
    const JobRun then = Two("then" + own, "b" + own, 22, 11, knobs);
    EXPECT_THAT(then.output, HasSubstr("resumed at step 11"));
    EXPECT_EQ(then.result.params_sha256, whole.params_sha256) << own;
    EXPECT_EQ(then.result.loss, whole.loss);
  }
}

// The ranks stop together after an average. Then the checkpoint is that of the undisturbed job.
TEST_F(DilocoTest, StopsAfterAnAverage) {
  const Args knobs = {"--localsgd_configs.k_steps=5", "--localsgd_configs.begin_step=0",
                      "--localsgd_configs.outer_optimizer=nesterov"};
  Args args = {"--localsgd=true", "--checkpoint.dir=" + Path("b"),
               "--checkpoint.every_steps=100000", "--steps_max=100000"};
  args.insert(args.end(), knobs.begin(), knobs.end());
  const auto job = StartJob("stopped", kTwoRanks, args);
  ASSERT_TRUE(WaitUntil([&] { return job->Ended() || StepOf(*job) > 0; })) << job->Output();
  job->Signal(SIGTERM);
  job->Wait();
  const std::string log = job->Output() + ReadWholeFile(Path("stopped.log/trainer.0.log"));
  const std::string words = "training stopped on request after step ";
  const size_t at = log.find(words);
  ASSERT_NE(at, std::string::npos) << log;
  const int step = std::stoi(log.substr(at + words.size()));
  EXPECT_EQ(step % 5, 0) << log;
  const JobRun then = Two("then", "b", step + 12, 100000, knobs);
  const JobRun whole = Two("whole", "a", step + 12, 100000, knobs);
  EXPECT_EQ(then.result.params_sha256, whole.result.params_sha256);
}

// Each parameter is sent once every k steps, and a step sends one fragment at most.
TEST_F(DilocoTest, SendsEachParameterEveryKthStep) {
  const Args every = {"--localsgd_configs.begin_step=0", "--localsgd_configs.k_steps=8"};
  Args outer = every, parts = every;
  outer.push_back("--localsgd_configs.outer_optimizer=nesterov");
  parts.insert(parts.end(), {"--localsgd_configs.fragments=4", "--localsgd_configs.delay=1"});
  const auto bytes = [&](const std::string& name, const Args& knobs) {
    return Two(name, name, 16, 100, knobs).result.counts.at("comm_bytes");
  };
  const double average = bytes("average", every);
  EXPECT_EQ(bytes("outer", outer), average);
  EXPECT_EQ(bytes("parts", parts), average);
}

// A step with two fragments in flight, and the same bits with several threads of operators.
TEST_F(DilocoTest, TheSameBitsWithOtherPasses) {
  const Args knobs = {"--localsgd_configs.k_steps=4", "--localsgd_configs.fragments=4",
                      "--localsgd_configs.delay=3", "--localsgd_configs.merge_factor=0.5",
                      "--localsgd_configs.outer_optimizer=nesterov"};
  Args other = knobs;
  other.insert(other.end(), {"--fuse_all_optimizer_ops=true", "--enable_auto_fusion=true",
                             "--num_threads=3", "--enable_backward_optimizer_op_deps=false"});
  EXPECT_EQ(Two("other", "a", 20, 100, other).result.params_sha256,
            Two("plain", "b", 20, 100, knobs).result.params_sha256);
}

TEST_F(DilocoTest, RefusesWhatIsNotBuilt) {
  struct Row {
    Args flags;
    const char* message;
  };
  const Row rows[] = {
      {{"--localsgd_configs.outer_optimizer=adam"},
       "localsgd_configs.outer_optimizer: \"adam\" is unknown [TD1104]"},
      {{"--localsgd_configs.fragments=5", "--localsgd_configs.k_steps=4"},
       "localsgd_configs.fragments: 5 is more than localsgd_configs.k_steps"},
      {{"--localsgd_configs.delay=4", "--localsgd_configs.k_steps=4"},
       "localsgd_configs.delay: 4 is not below localsgd_configs.k_steps"},
      {{"--localsgd_configs.delay=1", "--localsgd_configs.k_steps=4", "--nccl_comm_num=2"},
       "localsgd_configs.delay and nccl_comm_num"},
      {{"--localsgd_configs.fragments=6", "--localsgd_configs.k_steps=8"},
       "the number of layers with parameters, which is 5 [TD1104]"},
      {{"--localsgd_configs.outer_optimizer=nesterov", "--deterministic=true"},
       "deterministic and localsgd"},
  };
  for (const Row& row : rows) {
    Args flags = {"--localsgd=true"};
    flags.insert(flags.end(), row.flags.begin(), row.flags.end());
    const auto job = StartJob("refused", kTwoRanks, flags);
    EXPECT_NE(job->Wait(), 0);
    EXPECT_THAT(job->Output() + ReadWholeFile(Path("refused.log/trainer.0.log")),
                HasSubstr(row.message));
  }
  const auto job =
      StartJob("adaptive", kTwoRanks,
               {"--adaptive_localsgd=true", "--localsgd_configs.outer_optimizer=nesterov"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("localsgd_configs.outer_optimizer and adaptive_localsgd"));
}

}  // namespace
}  // namespace tandem::trainer
