// a_sync_configs and the other knobs of pserver mode: each knob determines which messages a trainer
// sends, and when.
#include <atomic>
#include <future>
#include <thread>

#include "common/tensor/device.h"
#include "gmock/gmock.h"
#include "kernels/exec/executor.h"
#include "proto/job.pb.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"
#include "tests/knobs/knob_programs.h"
#include "trainer/ps/async_communicator.h"
#include "trainer/ps/stale_gradients.h"

namespace tandem::trainer {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

// ---- The queue between a trainer and its servers ------------------------------------------------

// Records every exchange between a trainer and its servers. No exchange ends while `closed_` is
// true.
class Wire {
 public:
  struct Seen {
    int steps = 0;  // number of steps that the push contains; 0: no push
    float value = 0;
    bool pull = false;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  AsyncCommunicator::Exchange Exchange() {
    return [this](const GradientSet* push, ValueSets* pull) -> StatusOr<uint64_t> {
      MutexLock lock(mu_);
      ++inside_;
      inside_max_ = std::max(inside_max_, inside_);
      seen_.push_back(
          {push ? push->dense_steps : 0, push ? push->values[0][0] : 0, pull != nullptr});
      cv_.NotifyAll();
      while (closed_) (void)cv_.WaitUntil(mu_, Time::max());
      --inside_;
      if (pull != nullptr) (*pull)[0][0] = 7;
      return seen_.size();
    };
  }
  void Close(bool closed) {
    MutexLock lock(mu_);
    closed_ = closed;
    cv_.NotifyAll();
  }
  void WaitForInside(int count) {
    MutexLock lock(mu_);
    while (inside_ < count) {
      CHECK(cv_.WaitUntil(mu_, SteadyNow() + std::chrono::seconds(30))) << inside_;
    }
  }
  std::vector<Seen> seen() {
    MutexLock lock(mu_);
    return seen_;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  bool closed_ TD_GUARDED_BY(mu_) = false;
  int inside_ TD_GUARDED_BY(mu_) = 0, inside_max_ TD_GUARDED_BY(mu_) = 0;
  std::vector<Seen> seen_ TD_GUARDED_BY(mu_);
};

Status SendSteps(AsyncCommunicator& communicator, int from, int to) {
  for (int step = from; step < to; ++step) {
    const float gradient = static_cast<float>(step + 1);
    const float* const all[] = {&gradient};
    TD_RETURN_IF_ERROR(communicator.Send(static_cast<uint64_t>(step), 0.5f, all));
  }
  return OkStatus();
}

// Returns the recorded exchanges of steps 0 to 8. The first exchange has step 0. Steps 1 to 8 are
// all in the queue when the first exchange ends.
std::vector<Wire::Seen> EightSteps(AsyncOptions options) {
  Wire wire;
  wire.Close(true);
  AsyncCommunicator communicator(options, {1}, wire.Exchange());
  EXPECT_TRUE(SendSteps(communicator, 0, 1).ok());
  wire.WaitForInside(1);
  EXPECT_TRUE(SendSteps(communicator, 1, 9).ok());
  wire.Close(false);
  EXPECT_TRUE(communicator.Finish().ok());
  return wire.seen();
}

TEST(AsyncConfigs, MaxMergeVarNumAndIsSgdOptimizer) {
  using Seen = Wire::Seen;
  EXPECT_EQ(EightSteps({.merge_max = 1, .merge_waits = 0}).size(), 9u);
  // The values of the pushes are 1, then 2+3+4+5, then 6+7+8+9.
  EXPECT_THAT(EightSteps({.merge_max = 4, .merge_waits = 0, .sum = true}),
              ElementsAre(Seen{1, 1, true}, Seen{4, 14, true}, Seen{4, 30, true}));
  EXPECT_THAT(EightSteps({.merge_max = 4, .merge_waits = 0, .sum = false}),
              ElementsAre(Seen{1, 1, true}, Seen{4, 3.5f, true}, Seen{4, 7.5f, true}));
}

graph::OptimizerSpec Momentum(double mu) { return {.type = "momentum", .attrs = {{"mu", mu}}}; }

// Returns the warnings about 2 * kPushes pushes. The server applies each push after `updates`
// updates by other pushes.
std::string SaidOf(const graph::OptimizerSpec& optimizer, uint64_t updates) {
  StaleGradients stale(optimizer);
  std::string said;
  for (uint64_t i = 0; i < 2 * StaleGradients::kPushes; ++i) {
    stale.Applied(i, i + updates + 1);
    said += stale.TakeWarning();
  }
  return said;
}

TEST(AsyncConfigs, OldGradientsAndMomentumAreWarnedOfOnce) {
  const std::string said = SaidOf(Momentum(0.9), 20);
  EXPECT_THAT(said, HasSubstr("gradients are 20.0 updates old"));
  EXPECT_THAT(said, HasSubstr("momentum with momentum 0.9"));
  EXPECT_THAT(said, testing::EndsWith("[TD4022]; hint: set --a_sync_configs.max_staleness=4"));
  EXPECT_EQ(said.find("warning", 1), std::string::npos) << said;
  EXPECT_THAT(SaidOf({.type = "adam", .attrs = {}}, 20), HasSubstr("adam with beta1 0.9"));
  EXPECT_EQ(SaidOf(Momentum(0.9), static_cast<uint64_t>(StaleGradients::kUpdatesMax)), "");
  EXPECT_EQ(SaidOf(Momentum(0), 20), "");
  EXPECT_EQ(SaidOf({.type = "sgd", .attrs = {}}, 20), "");
}

TEST(AsyncConfigs, TheAgeOfAGradientIsThatOfTheParametersOfItsStep) {
  StaleGradients stale(Momentum(0.9));
  std::vector<uint64_t> versions;
  uint64_t updates = 3;  // updates by other trainers before the first push
  const auto exchange = [&](const GradientSet* push, ValueSets* pull) -> StatusOr<uint64_t> {
    versions.push_back(push->version);
    CHECK(pull != nullptr);
    return updates += 20;
  };
  AsyncCommunicator communicator({.merge_waits = 0}, {1}, stale.Watch(exchange, updates));
  float param = 0;
  float* const params[] = {&param};
  EXPECT_TRUE(SendSteps(communicator, 0, 1).ok());
  const Time until = SteadyNow() + std::chrono::seconds(30);
  while (!communicator.Receive(params)) CHECK(SteadyNow() < until);
  EXPECT_TRUE(SendSteps(communicator, 1, StaleGradients::kPushes).ok());
  EXPECT_TRUE(communicator.Finish().ok());
  // The gradient of the first push is 19 updates old. The gradients of all later pushes are
  // computed from version 23, and each later push is 20 updates older than the previous push.
  EXPECT_EQ(versions[0], 0u);
  EXPECT_THAT(std::vector(versions.begin() + 1, versions.end()), testing::Each(23u));
  EXPECT_THAT(stale.TakeWarning(), HasSubstr("gradients are 989.2 updates old"));
}

TEST(AsyncConfigs, MinSendGradNumBeforeRecv) {
  const auto pulls = [](int sent_before_recv) {
    int pulls = 0;
    for (const auto& seen : EightSteps({.merge_waits = 0, .sent_before_recv = sent_before_recv})) {
      pulls += seen.pull;
    }
    return pulls;
  };
  EXPECT_EQ(pulls(1), 9);
  EXPECT_EQ(pulls(3), 3);
  EXPECT_EQ(pulls(10), 0);
}

TEST(AsyncConfigs, IndependentRecvThread) {
  int both = 0, alone = 0;
  for (const auto& seen : EightSteps({.merge_waits = 0, .recv_thread = false})) {
    both += seen.pull && seen.steps > 0;
    alone += seen.pull && seen.steps == 0;
  }
  EXPECT_EQ(both, 9);
  EXPECT_EQ(alone, 0);
  Wire wire;
  AsyncCommunicator communicator({.merge_waits = 0, .recv_thread = true}, {1}, wire.Exchange());
  float param = 0;
  float* const params[] = {&param};
  ASSERT_TRUE(SendSteps(communicator, 0, 1).ok());
  const Time deadline = SteadyNow() + std::chrono::seconds(30);
  while (!communicator.Receive(params) && SteadyNow() < deadline) {
  }
  EXPECT_EQ(param, 7);
  ASSERT_TRUE(communicator.Finish().ok());
  EXPECT_THAT(wire.seen(), ElementsAre(Wire::Seen{1, 1, false}, Wire::Seen{0, 0, true}));
}

TEST(AsyncConfigs, SendQueueSize) {
  for (const int size : {1, 5}) {
    Wire wire;
    wire.Close(true);
    AsyncCommunicator communicator(
        {.queue_max = size, .merge_waits = 0, .timeout = milliseconds(50)}, {1}, wire.Exchange());
    ASSERT_TRUE(SendSteps(communicator, 0, 1).ok());
    wire.WaitForInside(1);
    EXPECT_TRUE(SendSteps(communicator, 1, 1 + size).ok());
    const Status full = SendSteps(communicator, 1 + size, 2 + size);
    EXPECT_EQ(full.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(full.message()), HasSubstr("send_queue_size"));
    wire.Close(false);
  }
}

TEST(AsyncConfigs, ThreadPoolSize) {
  for (const int senders : {1, 3}) {
    Wire wire;
    wire.Close(true);
    AsyncCommunicator communicator({.senders = senders, .merge_waits = 0}, {1}, wire.Exchange());
    ASSERT_TRUE(SendSteps(communicator, 0, 6).ok());
    wire.WaitForInside(senders);
    EXPECT_EQ(wire.seen().size(), static_cast<size_t>(senders));
    wire.Close(false);
    EXPECT_TRUE(communicator.Finish().ok());
    EXPECT_EQ(wire.seen().size(), 6u);
  }
}

// A sender that may wait sends two steps together, even if the second step is queued after the
// sender has taken the first step.
TEST(AsyncConfigs, SendWaitTimes) {
  for (const int waits : {0, 3000}) {
    Wire wire;
    AsyncCommunicator communicator({.merge_max = 2, .merge_waits = waits}, {1}, wire.Exchange());
    ASSERT_TRUE(SendSteps(communicator, 0, 1).ok());
    if (waits == 0) {
      while (wire.seen().empty()) {
      }
    }
    ASSERT_TRUE(SendSteps(communicator, 1, 2).ok());
    ASSERT_TRUE(communicator.Finish().ok());
    EXPECT_EQ(wire.seen().size(), waits == 0 ? 2u : 1u);
  }
}

TEST(AsyncConfigs, TheFirstErrorComesBackFromSend) {
  AsyncCommunicator communicator({}, {1}, [](const GradientSet*, ValueSets*) {
    return StatusOr<uint64_t>(Unavailable("gone"));
  });
  Status status;
  for (int step = 0; status.ok() && step < 1000; ++step) {
    status = SendSteps(communicator, step, step + 1);
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(communicator.Finish().code(), StatusCode::kUnavailable);
}

// ---- From the job to the mode's options ---------------------------------------------------------

TEST(AsyncConfigs, TheJobDecides) {
  EXPECT_EQ(PserverModeOptions({}).regime, PsSyncMode::kSync);
  EXPECT_EQ(PserverModeOptions({{"a_sync", "true"}}).regime, PsSyncMode::kASync);
  EXPECT_EQ(PserverModeOptions({{"a_sync", "true"}, {"half_async", "true"}}).regime,
            PsSyncMode::kHalfAsync);
  EXPECT_EQ(PserverModeOptions({{"a_sync", "true"}, {"max_staleness", "3"}}).regime,
            PsSyncMode::kHalfAsync);
  const PserverOptions geo =
      PserverModeOptions({{"a_sync", "true"}, {"a_sync_configs.k_steps", "7"}});
  EXPECT_EQ(geo.regime, PsSyncMode::kGeo);
  EXPECT_EQ(geo.geo_steps, 7);
  EXPECT_TRUE(PserverModeOptions({{"optimizer.type", "sgd"}}).async.sum);
  EXPECT_FALSE(PserverModeOptions({{"optimizer.type", "adam"}}).async.sum);
  EXPECT_TRUE(
      PserverModeOptions({{"optimizer.type", "adam"}, {"is_sgd_optimizer", "true"}}).async.sum);
  EXPECT_FALSE(PserverModeOptions({{"launch_barrier", "false"}}).launch_barrier);
  EXPECT_EQ(PserverModeOptions({{"rpc_retry_times", "9"}}).rpc_retries, 9);
  EXPECT_EQ(PserverModeOptions({{"dispatcher", "HashName"}}).dispatcher,
            ps::PsDispatcher::kHashName);
  EXPECT_EQ(PserverModeOptions({{"dispatcher", "SizeBalanced"}}).dispatcher,
            ps::PsDispatcher::kSizeBalanced);
  JobConfig job;
  PserverModeOptions(
      {{"a_sync", "true"}, {"optimizer.schedule.kind", "EXPONENTIAL"}, {"lr_decay_steps", "25"}},
      &job);
  EXPECT_EQ(job.optimizer().schedule().decay_steps(), 25);
}

// ---- Sync modes and calls, with real servers ----------------------------------------------------

// Two trainers of one parameter with four elements. The test starts each step.
class RegimeTest : public testing::Test {
 protected:
  void Start(PserverOptions options, int servers = 1) {
    for (int i = 0; i < servers; ++i) {
      servers_.push_back(*pserver::Pserver::Start({}, metrics_));
      options.servers.push_back(ToString(servers_.back()->endpoint()));
    }
    options.common.job = "job";
    options.common.ranks = 2;
    options.min_block_size = 2;
    for (int rank = 0; rank < 2; ++rank) {
      options.common.rank = rank;
      trainers_.push_back(std::make_unique<Trainer>());
      Trainer& t = *trainers_.back();
      t.mode = MakePserverMode(options);
      const TensorDesc desc{DType::kF32, Shape{4}};
      for (const char* name : {"w", "w@GRAD"}) {
        const graph::VarKind kind =
            std::string(name) == "w" ? graph::VarKind::kParam : graph::VarKind::kData;
        CHECK(t.program.AddVar({.name = name, .kind = kind, .desc = desc}).ok());
      }
      CHECK(t.mode.programs->Distribute(t.program, {{"w", "w@GRAD"}}).ok());
      CHECK(exec::Initialize(t.program, 1, t.scope).ok());
      t.w = *t.scope.Declare("w", desc);
      exec::CommNode node{&t.program.ops.back(), {}, {{"w", desc, t.w.data()}}, {}};
      node.in.push_back({"w@GRAD", desc, options.updates_locally() ? t.w.data() : t.gradient});
      CHECK(t.mode.training->Register(node).ok());
      const auto started = t.mode.membership->Join(t.program, t.scope, {}, 0, nullptr);
      CHECK(started.ok()) << started.status();
    }
  }
  // Starts the exchange of a step of trainer `trainer`. The trainer's `done` gets the result.
  void Step(int trainer, int64_t step) {
    Trainer& t = *trainers_[static_cast<size_t>(trainer)];
    t.done = std::make_unique<exec::CommDone>();
    ASSERT_TRUE(t.mode.steps->BeginStep(step, 1.0f).ok());
    t.mode.training->Start(0, step, t.done.get());
  }
  double Pushes() { return metrics_.GetCounter("tandem_pserver_pushes_total", "").Value(); }

  struct Trainer {
    CpuDevice device;
    exec::Scope scope{device};
    graph::Program program;
    Tensor w;
    float gradient[4] = {1, 1, 1, 1};
    std::unique_ptr<exec::CommDone> done;
    TrainingMode mode;
  };
  Metrics metrics_;
  std::vector<std::unique_ptr<pserver::Pserver>> servers_;
  std::vector<std::unique_ptr<Trainer>> trainers_;
};

bool Ends(exec::CommDone& done, Duration within) { return done.Wait(SteadyNow() + within).ok(); }
constexpr Duration kSoon = std::chrono::seconds(20), kNotYet = milliseconds(200);

TEST_F(RegimeTest, GeoPushesEveryKStepsAndAtTheEnd) {
  Start({.regime = PsSyncMode::kGeo, .geo_steps = 4});
  auto* const w = trainers_[0]->w.span<float>().data();
  const float first = w[0];
  for (int64_t step = 0; step < 10; ++step) {
    w[0] += 1;  // stands for an update by the trainer's optimizer
    Step(0, step);
    ASSERT_TRUE(Ends(*trainers_[0]->done, kSoon));
  }
  EXPECT_EQ(Pushes(), 2);
  ASSERT_TRUE(trainers_[0]->mode.membership->Finish().ok());
  EXPECT_EQ(Pushes(), 3);  // ceil(10 steps / 4 steps per push)
  // Trainer 0 sends half of its unsent difference at each push: 4 / 2 = 2, (4 + 2) / 2 = 3, (2 + 3)
  // / 2 = 2.5. Trainer 1 receives the sum.
  for (int64_t step = 0; step < 4; ++step) {
    Step(1, step);
    ASSERT_TRUE(Ends(*trainers_[1]->done, kSoon));
  }
  EXPECT_NEAR(trainers_[1]->w.span<float>()[0], first + 7.5, 1e-5);
}

TEST_F(RegimeTest, MaxStalenessHoldsTheFasterOne) {
  Start({.regime = PsSyncMode::kHalfAsync, .max_staleness = 2});
  for (int64_t step = 0; step < 2; ++step) {
    Step(0, step);
    ASSERT_TRUE(Ends(*trainers_[0]->done, kSoon)) << step;
  }
  Step(0, 2);  // trainer 0 has done three steps, trainer 1 none
  EXPECT_FALSE(Ends(*trainers_[0]->done, kNotYet));
  Step(1, 0);
  EXPECT_TRUE(Ends(*trainers_[0]->done, kSoon));
  EXPECT_TRUE(Ends(*trainers_[1]->done, kSoon));
}

TEST_F(RegimeTest, MaxStalenessNamesTheSlowOne) {
  Start({.common = {.step_timeout = milliseconds(2000)},
         .regime = PsSyncMode::kHalfAsync,
         .max_staleness = 0});
  Step(0, 0);
  const Status status = trainers_[0]->done->Wait(SteadyNow() + kSoon);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("trainer 1"));
}

TEST_F(RegimeTest, HalfAsyncWaitsForItselfAlone) {
  Start({.regime = PsSyncMode::kHalfAsync});
  const float before = trainers_[0]->w.span<float>()[0];
  for (int64_t step = 0; step < 5; ++step) {
    Step(0, step);
    ASSERT_TRUE(Ends(*trainers_[0]->done, kSoon));
    EXPECT_FLOAT_EQ(trainers_[0]->w.span<float>()[0], before - static_cast<float>(step + 1));
  }
}

TEST_F(RegimeTest, ASyncGoesOnWithoutItsParameters) {
  Start({.regime = PsSyncMode::kASync});
  for (int64_t step = 0; step < 5; ++step) {
    Step(0, step);
    ASSERT_TRUE(Ends(*trainers_[0]->done, kSoon));
  }
  ASSERT_TRUE(trainers_[0]->mode.membership->Finish().ok());
  EXPECT_EQ(Pushes(), 5);
}

// Checks which servers hold the five slices of three variables.
TEST_F(RegimeTest, DispatcherPlacesTheSlices) {
  const auto place = [](ps::PsDispatcher dispatcher) {
    ps::PartitionOptions options{.servers = 3, .min_block_size = 2, .dispatcher = dispatcher};
    std::vector<int> servers;
    const auto blocks =
        *ps::Partition({{"a", Shape{3}}, {"b", Shape{3}}, {"c", Shape{40}}}, options);
    for (const ps::PsSlice& block : blocks) {
      servers.push_back(block.server);
    }
    return servers;
  };
  EXPECT_THAT(place(ps::PsDispatcher::kRoundRobin), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_NE(place(ps::PsDispatcher::kSizeBalanced), place(ps::PsDispatcher::kRoundRobin));
  EXPECT_NE(place(ps::PsDispatcher::kHashName), place(ps::PsDispatcher::kRoundRobin));
  Start({.dispatcher = ps::PsDispatcher::kSizeBalanced}, 3);
  Step(0, 0);
  Step(1, 0);
  EXPECT_TRUE(Ends(*trainers_[0]->done, kSoon));
}

TEST(PsCalls, LaunchBarrier) {
  ps::PsOptions options;
  options.patience.start_timeout = milliseconds(300);
  EXPECT_EQ(ps::PsClient::Connect({"127.0.0.1:1"}, options).status().code(),
            StatusCode::kUnavailable);
  options.patience.wait_for_servers = false;
  const auto client = ps::PsClient::Connect({"127.0.0.1:1"}, options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE((*client)->Configure({{"w", Shape{1}}}, ps::PsMode::kSync, {}).ok());
}

// A server ends in the middle of a call. With one retry, the client waits for a new server and
// repeats the call. Without a retry, the call fails at once.
TEST(PsCalls, RpcRetryTimes) {
  for (const int retries : {0, 1}) {
    Metrics metrics;
    std::unique_ptr<pserver::Pserver> server = *pserver::Pserver::Start({}, metrics);
    ps::PsOptions options;
    options.patience.retries = retries;
    options.trainers = 2;
    // With a retry, the timeout bounds the wait for a new server. Without a retry, the call must
    // fail long before this timeout.
    options.patience.step_timeout = retries == 1 ? milliseconds(4000) : milliseconds(120000);
    auto client = *ps::PsClient::Connect({ToString(server->endpoint())}, options);
    ASSERT_TRUE(client->Configure({{"w", Shape{1}}}, ps::PsMode::kSync, {}).ok());
    const Time begin = SteadyNow();
    auto waiting = std::async([&] { return client->Barrier("nobody else comes"); });
    std::this_thread::sleep_for(milliseconds(300));
    server.reset();
    EXPECT_FALSE(waiting.get().ok());
    if (retries == 1) {
      EXPECT_GT(SteadyNow() - begin, milliseconds(3900));
    } else {
      EXPECT_LT(SteadyNow() - begin, milliseconds(60000));
    }
  }
}

}  // namespace
}  // namespace tandem::trainer
