// Slices of LeNet's dense parameters move between the pservers of a running job. In sync mode,
// parameters and optimizer slots must have the bits of a job without moves. In a_sync mode with SGD
// at learning rate 1, the value of each element is the number of applied pushes.
#include <array>

#include "tests/e2e/rebalance_fixture.h"
#include "trainer/ps/geo_parameters.h"

namespace tandem {
namespace {

// LeNet's parameters, and the gradients that a trainer computes from them.
class DenseJob {
 public:
  static std::vector<ps::PsVariable> Variables() {
    return {{"conv1.w", Shape{6, 1, 5, 5}},  {"conv1.b", Shape{6}},
            {"conv2.w", Shape{16, 6, 5, 5}}, {"conv2.b", Shape{16}},
            {"fc1.w", Shape{256, 120}},      {"fc1.b", Shape{120}},
            {"fc2.w", Shape{120, 84}},       {"fc2.b", Shape{84}},
            {"fc3.w", Shape{84, 10}},        {"fc3.b", Shape{10}}};
  }
  DenseJob() {
    for (const ps::PsVariable& v : Variables()) {
      values_.emplace_back(static_cast<size_t>(v.shape.numel()), 0.0f);
      gradients_.push_back(values_.back());
    }
  }
  // Gradients depend on the parameters, so a step with wrong parameters would change the result.
  void Compute(int trainer, uint64_t step) {
    for (size_t v = 0; v < values_.size(); ++v) {
      for (size_t i = 0; i < values_[v].size(); ++i) {
        const auto word = step * 13 + i * 7 + v + static_cast<uint64_t>(trainer) * 3;
        gradients_[v][i] = static_cast<float>(word % 11) - 5.1f + 0.1f * values_[v][i];
      }
    }
  }
  void Set(float gradient) {
    for (auto& g : gradients_) std::fill(g.begin(), g.end(), gradient);
  }
  std::vector<ps::PsTensor> Parameters() {
    std::vector<ps::PsTensor> all;
    const auto variables = Variables();
    for (size_t v = 0; v < variables.size(); ++v) {
      all.push_back({variables[v].name, values_[v].data(), variables[v].shape.numel()});
    }
    return all;
  }
  std::vector<ps::PsConstTensor> Gradients() const {
    std::vector<ps::PsConstTensor> all;
    const auto variables = Variables();
    for (size_t v = 0; v < variables.size(); ++v) {
      all.push_back({variables[v].name, gradients_[v].data(), variables[v].shape.numel()});
    }
    return all;
  }
  Status Pull(ps::PsClient& client, ps::PullCondition when) {
    std::promise<Status> done;
    client.Pull(when, Parameters(),
                [&done](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
    return done.get_future().get();
  }
  Status PushPull(ps::PsClient& client, uint64_t step, float rate, ps::PullCondition when) {
    std::promise<Status> done;
    client.PushPull(step, rate, Gradients(), when, Parameters(),
                    [&done](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
    return done.get_future().get();
  }
  const std::vector<std::vector<float>>& values() const { return values_; }

 private:
  std::vector<std::vector<float>> values_, gradients_;
};

// Trains in sync mode while slices move, and compares the final state with the final state of a job
// without moves.
class DenseRebalanceTest : public StepRebalanceTest {
 protected:
  DenseRebalanceTest() { variables_ = DenseJob::Variables(); }
  std::unique_ptr<ps::PsClient> DenseClient(int trainer) {
    return Client(trainer, ps::PsMode::kSync, {"adam", {}});
  }
  void Train(int trainer) override {
    DenseJob job;
    const auto client = DenseClient(trainer);
    for (uint64_t step = 0; step < last_; ++step) {
      if (trainer == 0 && stop_ && last_ == UINT64_MAX) last_ = step + 2;
      job.Compute(trainer, step);
      const Status status = job.PushPull(*client, step, 0.01f, {.version = step + 1});
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      ++pushes_;
    }
    EXPECT_TRUE(client->Complete().ok());
  }
  // Returns the parameters and the optimizer slots of adam.
  std::map<std::string, std::vector<float>> State() {
    DenseJob job;
    const auto client = DenseClient(0);
    const Status pulled = job.Pull(*client, {.version = last_});
    CHECK(pulled.ok()) << pulled;
    std::map<std::string, std::vector<float>> all;
    for (size_t v = 0; v < variables_.size(); ++v) all[variables_[v].name] = job.values()[v];
    const auto slots = client->PullState();
    CHECK(slots.ok()) << slots.status();
    for (const ps::PsSlot& slot : *slots) all[slot.slot] = slot.values;
    return all;
  }
  void ExpectSameState() {
    const auto moved = State();
    TrainCalmly();
    EXPECT_EQ(moved.size(), 5 * variables_.size());
    EXPECT_EQ(moved, State());
  }
};

TEST_F(DenseRebalanceTest, AServerComesAndAnotherGoesBetweenSteps) {
  Begin();
  StartServer(2);
  const auto command = Tandem({"rebalance", "--add=" + endpoints_[2]});
  Finish(*command, "pserver 2 (" + endpoints_[2] + "): 0 buckets, 0 rows, ");
  EXPECT_THAT(command->Output(), testing::Not(HasSubstr(", 0 slices")));
  DrainAndStop();
  ExpectSameState();
}

TEST_F(DenseRebalanceTest, ServersAndCommandMayBeKilledMeanwhile) {
  MoveAndKill(std::chrono::milliseconds(60));
  ExpectSameState();
}

// Trains in a_sync mode with SGD at learning rate 1 and gradients of -1. Thus the value of each
// element is the number of applied pushes.
class DenseLedgerTest : public DenseRebalanceTest {
 protected:
  void Train(int trainer) override {
    DenseJob job;
    job.Set(-1);
    const auto client = Client(trainer);
    for (uint64_t step = 0; !stop_; ++step) {
      const Status status = job.PushPull(*client, step, 1, {.step = StepBound(step + 1)});
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      ++pushes_;
    }
    EXPECT_TRUE(client->Complete().ok());
  }
  void ExpectCounts() { ExpectEach(testing::Eq(static_cast<float>(pushes_))); }
  void ExpectEach(const testing::Matcher<float>& expected) {
    DenseJob job;
    const Status pulled = job.Pull(*Client(0), {});
    ASSERT_TRUE(pulled.ok()) << pulled;
    std::printf("rebalance: %lld pushes\n", static_cast<long long>(pushes_));
    for (const std::vector<float>& values : job.values()) {
      EXPECT_THAT(values, testing::Each(expected));
    }
  }
};

TEST_F(DenseLedgerTest, AServerComesAndAnotherGoesWhileTrainersPush) {
  Begin();
  StartServer(2);
  Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}), "pserver 2 (");
  DrainAndStop();
  ExpectCounts();
}

TEST_F(DenseLedgerTest, ServersAndCommandMayBeKilledMeanwhile) {
  MoveAndKill(std::chrono::milliseconds(40));
  ExpectCounts();
}

TEST_F(DenseLedgerTest, TrainersThatWaitForOneAnotherGoOnWhateverMoves) {
  staleness_ = 1;
  MoveAndKill(std::chrono::milliseconds(40));
  ExpectCounts();
}

// Trainers make local steps and exchange differences of parameters with the servers (geo).
class GeoLedgerTest : public DenseLedgerTest {
 protected:
  static constexpr int kSteps = 3;  // number of local steps per exchange
  // A lost or repeated push would change the result by 1.5 to 3, which is more than the tolerance.
  void ExpectSteps() {
    ExpectEach(testing::FloatNear(static_cast<float>(given_[0] + given_[1]), 0.5f));
  }
  void Train(int trainer) override {
    DenseJob job;
    const auto client = Client(trainer);
    trainer::GeoParameters geo(job.Parameters(), kTrainers);
    for (uint64_t step = 0; !stop_; ++step) {
      for (const ps::PsTensor& t : job.Parameters()) {
        for (int64_t i = 0; i < t.numel; ++i) t.data[i] += kSteps;
      }
      std::promise<Status> done;
      const auto differences = geo.Differences();
      client->PushPull(step, -1, differences, {}, geo.Pulled(),
                       [&done](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
      const Status status = done.get_future().get();
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      given_[trainer] += static_cast<double>(differences[0].data[0]);
      geo.Take();
      ++pushes_;
    }
    EXPECT_TRUE(client->Complete().ok());
  }
  // Sum of the pushed differences of one element, by trainer.
  std::array<double, kTrainers> given_ = {};
};

TEST_F(GeoLedgerTest, AServerComesAndAnotherGoesWhileTrainersExchange) {
  Begin();
  StartServer(2);
  Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}), "pserver 2 (");
  DrainAndStop();
  ExpectSteps();
}

TEST_F(GeoLedgerTest, ServersAndCommandMayBeKilledMeanwhile) {
  MoveAndKill(std::chrono::milliseconds(40));
  ExpectSteps();
}

}  // namespace
}  // namespace tandem
