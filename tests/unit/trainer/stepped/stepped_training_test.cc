// Tests ranks whose steps the test runs. The parameters must be equal on all ranks, and nearly
// equal to those of one rank with all samples. Also tests the errors of calls in a wrong order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "kernels/exec/executor.h"
#include "proto/job.pb.h"
#include "tests/support/temp_dir.h"
#include "trainer/models/models.h"
#include "trainer/stepped/stepped_training.h"

namespace tandem::trainer {
namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

constexpr int kBatch = 8, kFeatures = 4, kClasses = 3, kSteps = 5;

// The training of one rank: program, scope, plan and executor.
class Rank {
 public:
  Rank(const Settings& settings, const Environment& environment, int batch) : batch_(batch) {
    auto training = SteppedTraining::Make(settings, environment);
    CHECK(training.ok()) << training.status();
    training_ = *std::move(training);
    auto program = BuildModel("mlp",
                              {{"features", std::to_string(kFeatures)},
                               {"classes", std::to_string(kClasses)},
                               {"loss", "softmax"}},
                              batch);
    CHECK(program.ok()) << program.status();
    program_ = *std::move(program);
    CHECK_EQ(training_->AddTo(&program_), OkStatus());
    CHECK_EQ(exec::Initialize(program_, training_->config().seed(), scope_), OkStatus());
    const auto options = training_->PlanOptions(1);
    CHECK(options.ok()) << options.status();
    auto plan = exec::Plan::Make(program_, backend_, scope_, training_->comm(), *options);
    CHECK(plan.ok()) << plan.status();
    plan_ = *std::move(plan);
    executor_ = std::make_unique<exec::Executor>(*plan_);
  }

  SteppedTraining& training() { return *training_; }
  StatusOr<int64_t> Join() {
    return training_->Join(program_, &scope_, 0, [] { return false; });
  }
  // Runs a step with the samples `first` to first + batch - 1 of the step.
  Status Step(int64_t step, int first) {
    TD_RETURN_IF_ERROR(training_->BeginStep(step, 0.1F, batch_));
    const Tensor x = *plan_->Get("x"), label = *plan_->Get("label");
    for (int i = 0; i < batch_; ++i) {
      const int sample = static_cast<int>(step) * kBatch + first + i;
      for (int f = 0; f < kFeatures; ++f) {
        x.span<float>()[static_cast<size_t>(i * kFeatures + f)] =
            std::sin(static_cast<float>(sample * kFeatures + f));
      }
      label.span<int64_t>()[static_cast<size_t>(i)] = sample % kClasses;
    }
    return executor_->Run();
  }
  std::vector<float> Params() const {
    std::vector<float> all;
    for (const graph::Var* var : program_.VarsOf(graph::VarKind::kParam)) {
      const auto values = scope_.Find(var->name)->span<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  const int batch_;
  CpuDevice device_;
  const exec::Backend backend_ = *exec::Backend::For(Place{});
  exec::Scope scope_{device_};
  graph::Program program_;
  std::unique_ptr<SteppedTraining> training_;  // before the plan, which must be destroyed first
  std::unique_ptr<exec::Plan> plan_;
  std::unique_ptr<exec::Executor> executor_;
};

const Settings kSettings = {{"optimizer.type", "sgd"}, {"name", "stepped"}};

Settings With(const std::string& name, const std::string& value) {
  Settings settings = kSettings;
  settings.emplace_back(name, value);
  return settings;
}

TEST(SteppedTrainingTest, TwoRanksTrainAsOne) {
  const TempDir dir;
  const std::string secret = dir / "secret";
  std::ofstream(secret) << "0123456789abcdef0123456789abcdef\n";
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  std::vector<float> params[2];
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      Rank rank(With("mode", "collective"),
                {{"TANDEM_RANK", std::to_string(r)},
                 {"TANDEM_SIZE", "2"},
                 {"TANDEM_SECRET_FILE", secret},
                 {"TANDEM_RENDEZVOUS", "file://" + dir.path()}},
                kBatch / 2);
      ASSERT_EQ(rank.Join().status(), OkStatus());
      for (int step = 0; step < kSteps; ++step) {
        ASSERT_EQ(rank.Step(step, r * kBatch / 2), OkStatus());
      }
      ASSERT_EQ(rank.training().Finish(), OkStatus());
      params[r] = rank.Params();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(params[0], params[1]);

  Rank alone(With("mode", "local"), {}, kBatch);
  const std::vector<float> before = alone.Params();
  ASSERT_EQ(alone.Join().value(), 0);
  for (int step = 0; step < kSteps; ++step) ASSERT_EQ(alone.Step(step, 0), OkStatus());
  const std::vector<float> after = alone.Params();
  ASSERT_EQ(after.size(), params[0].size());
  float largest = 0, moved = 0;
  for (size_t i = 0; i < after.size(); ++i) {
    largest = std::max(largest, std::abs(after[i] - params[0][i]));
    moved = std::max(moved, std::abs(after[i] - before[i]));
  }
  EXPECT_LT(largest, 1e-5F);
  EXPECT_GT(moved, 1e-3F);
}

TEST(SteppedTrainingTest, OrderOfCalls) {
  Rank rank(With("mode", "local"), {}, kBatch);
  EXPECT_THAT(ToString(rank.Step(0, 0)), HasSubstr("has not joined"));
  ASSERT_TRUE(rank.Join().ok());
  EXPECT_THAT(ToString(rank.Join().status()), HasSubstr("joined before"));
  ASSERT_EQ(rank.Step(0, 0), OkStatus());
  ASSERT_EQ(rank.training().Gather(), OkStatus());
  ASSERT_EQ(rank.training().Finish(), OkStatus());
  EXPECT_THAT(ToString(rank.Step(1, 0)), HasSubstr("has ended"));
  EXPECT_THAT(ToString(rank.training().Finish()), HasSubstr("has ended"));
  EXPECT_THAT(ToString(rank.Join().status()), HasSubstr("ended"));
}

TEST(SteppedTrainingTest, RefusedSettings) {
  const struct {
    Settings settings;
    Environment environment;
    const char* message;
  } cases[] = {
      {With("cpu_num", "2"), {}, "cpu_num above 1 with a training loop in Python"},
      {With("strategy.auto", "true"), {}, "auto with a training loop"},
      {With("checkpoint.dir", "x"), {}, "checkpoint.dir with a training loop"},
      {With("optimizer.type", "sdg"), {}, "sgd"},
      {With("a_synk", "true"), {}, "setting a_synk"},
      {With("mode", "collective"),
       {{"TANDEM_RANK", "0"}, {"TANDEM_SIZE", "2"}, {"TANDEM_RENDEZVOUS", "10.0.0.1:7000"}},
       "not encrypted"},
      {kSettings, {{"TANDEM_RANK", "3"}, {"TANDEM_SIZE", "2"}}, "TANDEM_RANK"},
  };
  for (const auto& c : cases) {
    const auto training = SteppedTraining::Make(c.settings, c.environment);
    ASSERT_FALSE(training.ok()) << c.message;
    EXPECT_THAT(ToString(training.status()), HasSubstr(c.message));
  }
}

TEST(SteppedTrainingTest, AddressesAreNeeded) {
  auto training =
      SteppedTraining::Make(With("mode", "pserver"), {{"TANDEM_RANK", "0"}, {"TANDEM_SIZE", "2"}});
  ASSERT_TRUE(training.ok()) << training.status();
  graph::Program program =
      BuildModel("mlp", {{"features", "4"}, {"classes", "3"}, {"loss", "softmax"}}, 2).value();
  EXPECT_THAT(ToString((*training)->AddTo(&program)), HasSubstr("needs pservers"));
}

}  // namespace
}  // namespace tandem::trainer
