// Tests processes that are stopped with SIGSTOP instead of killed. Connections stay open, but no
// message arrives. Every call of a client must end by its deadline. When the process continues, the
// job must continue too.
//   TANDEM_STALL_SLACK_MS=N tolerance of the deadlines of calls in ms (5000, because tests share
//   machines)
#include <signal.h>

#include <atomic>
#include <future>
#include <thread>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int64_t kNumel = 1 << 16, kHeight = 1000, kDim = 8;
constexpr Duration kStepTimeout = std::chrono::milliseconds(1000);
// Additional time that a client allows for calls that wait in the server.
constexpr Duration kGrace = std::chrono::seconds(2);

Duration Slack() {
  const char* text = std::getenv("TANDEM_STALL_SLACK_MS");
  return std::chrono::milliseconds(text == nullptr ? 5000 : std::atoi(text));
}

class StallTest : public JobTest {
 protected:
  // Starts or restarts the server, always at the same address.
  void StartServer(std::vector<std::string> args = {}) {
    if (endpoint_.empty()) endpoint_ = "127.0.0.1:" + std::to_string(FreePort());
    args.insert(args.end(), {"--listen=" + endpoint_, "--data_dir=" + Path("data")});
    server_ = std::make_unique<ChildProcess>("tandem-pserver", args,
                                             std::map<std::string, std::string>{}, Path("server"));
    ASSERT_TRUE(server_->WaitForText("listening on"));
  }
  std::unique_ptr<ps::PsClient> Client(ps::PsTransport transport, int trainer = 0, int trainers = 1,
                                       const std::function<void(ps::PsOptions&)>& change = {}) {
    ps::PsOptions options;
    options.trainer = trainer;
    options.trainers = trainers;
    options.patience.step_timeout = options.patience.start_timeout = kStepTimeout;
    options.transport = transport;
    if (change) change(options);
    auto client = ps::PsClient::Connect({endpoint_}, options);
    CHECK(client.ok()) << client.status();
    const ps::PsTable rows = {.variable = "rows", .height = kHeight, .dim = kDim};
    const auto state = (*client)->Configure({{"w", Shape{kNumel}}}, ps::PsMode::kASync, {}, {rows});
    CHECK(state.ok()) << state.status();
    const auto version = (*client)->InitOrFetch(Tensors());
    CHECK(version.ok()) << version.status();
    return *std::move(client);
  }
  std::vector<ps::PsTensor> Tensors() { return {{"w", values_.data(), kNumel}}; }
  std::vector<ps::PsConstTensor> Gradient() { return {{"w", gradient_.data(), kNumel}}; }
  ps::PsRows Rows() {
    return {"rows", {ids_.begin(), ids_.end()}, {row_.data(), row_.data() + kDim}};
  }

  // Runs `call`. The call must fail within `deadline` plus Slack().
  static void ExpectEnds(const std::string& what, Duration deadline,
                         const std::function<Status()>& call) {
    const Time begin = SteadyNow();
    const Status status = call();
    const double late = Seconds(SteadyNow() - begin - deadline);
    std::printf("stall: %s: %.3f s of %.3f s: %s\n", what.c_str(), Seconds(SteadyNow() - begin),
                Seconds(deadline), std::string(status.message()).c_str());
    EXPECT_THAT(status.code(), AnyOf(StatusCode::kDeadlineExceeded, StatusCode::kUnavailable))
        << what << ": " << status;
    EXPECT_LE(late, Seconds(Slack())) << what;
  }
  struct Call {
    std::string name;
    Duration deadline;
    std::function<Status(ps::PsClient&)> run;
  };
  using Calls = std::vector<Call>;
  // Returns the calls of a client in groups. A client makes the calls of a group one after another.
  std::vector<Calls> AllCalls();
  Status PushOnce(ps::PsClient& client) {
    std::promise<Status> done;
    client.Push(step_++, 0.1f, Gradient(), [&](Status s) { done.set_value(std::move(s)); },
                {{"rows", ids_, row_.data()}});
    return done.get_future().get();
  }

  std::string endpoint_;
  std::unique_ptr<ChildProcess> server_;
  std::vector<float> values_ = std::vector<float>(kNumel, 1.0f);
  std::vector<float> gradient_ = std::vector<float>(kNumel, 0.5f);
  std::vector<int64_t> ids_ = {3, 9};
  std::vector<float> row_ = std::vector<float>(2 * kDim, 1.0f);
  std::atomic<uint64_t> step_{0};
};

std::vector<StallTest::Calls> StallTest::AllCalls() {
  using Done = std::function<void(const StatusOr<uint64_t>&)>;
  const auto version_of = [](const std::function<void(Done)>& start) {
    std::promise<Status> done;
    start([&](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
    return done.get_future().get();
  };
  const Duration wait = kStepTimeout + kGrace;
  return {{{"Push", kStepTimeout, [this](ps::PsClient& client) { return PushOnce(client); }},
           {"Pull", wait,
            [=, this](ps::PsClient& client) {
              return version_of([&](Done done) { client.Pull(0, Tensors(), std::move(done)); });
            }}},
          {{"PushPull", wait,
            [=, this](ps::PsClient& client) {
              return version_of([&](Done done) {
                client.PushPull(step_++, 0.1f, Gradient(), {}, Tensors(), std::move(done));
              });
            }},
           {"PullRows", wait,
            [=, this](ps::PsClient& client) {
              return version_of([&](Done done) { client.PullRows({}, {Rows()}, std::move(done)); });
            }}},
          {{"PullTable", wait,
            [](ps::PsClient& client) { return client.PullTable("rows", true).status(); }},
           {"PullState", wait, [](ps::PsClient& client) { return client.PullState().status(); }}},
          {{"Barrier", wait, [](ps::PsClient& client) { return client.Barrier("b"); }},
           {"Save", wait, [](ps::PsClient& client) { return client.Save().status(); }}},
          {{"ServerInfo", wait, [](ps::PsClient& client) { return client.ServerInfo().status(); }},
           {"Complete", wait, [](ps::PsClient& client) { return client.Complete(); }}}};
}

// Each pair of calls has a client, and the clients call at the same time. The second call of a
// client follows a call that has failed.
TEST_F(StallTest, EveryCallToAStoppedServerEnds) {
  const std::vector<Calls> calls = AllCalls();
  const auto trainers = static_cast<int>(calls.size());
  StartServer({"--trainers=" + std::to_string(trainers)});
  for (const auto& [road, transport] :
       {std::pair("gRPC", ps::PsTransport::kGrpc), std::pair("lane", ps::PsTransport::kShm)}) {
    std::vector<std::unique_ptr<ps::PsClient>> clients;
    for (int trainer = 0; trainer < trainers; ++trainer) {
      clients.push_back(Client(transport, trainer, trainers));
      ASSERT_TRUE(PushOnce(*clients.back()).ok());
    }
    server_->Signal(SIGSTOP);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < calls.size(); ++i) {
      threads.emplace_back([&calls, &clients, i, name = std::string(road)] {
        for (const Call& call : calls[i]) {
          ExpectEnds(name + " " + call.name, call.deadline, [&] { return call.run(*clients[i]); });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    server_->Signal(SIGCONT);
    clients.clear();
    // After the server continues (SIGCONT), a new client can use the server.
    auto next = Client(transport, 0, trainers);
    const Status pushed = PushOnce(*next);
    EXPECT_TRUE(pushed.ok()) << pushed;
  }
}

// A callback reports the unresponsive server. If a new process replaces the server within
// replace_timeout, the push succeeds and is applied once.
TEST_F(StallTest, AStoppedServerIsToldOfAndReplaced) {
  StartServer({"--durability=logged"});
  std::promise<std::pair<int, Duration>> told;
  std::atomic<bool> once{false};
  auto client = Client(ps::PsTransport::kAuto, 0, 1, [&](ps::PsOptions& options) {
    options.patience.replace_timeout = std::chrono::seconds(60);
    options.callbacks.on_silent = [&](int server, Duration silent) {
      if (!once.exchange(true)) told.set_value({server, silent});
    };
  });
  ASSERT_TRUE(PushOnce(*client).ok());
  server_->Signal(SIGSTOP);
  std::promise<Status> done;
  client->Push(step_++, 0.1f, Gradient(), [&](Status s) { done.set_value(std::move(s)); },
               {{"rows", ids_, row_.data()}});
  auto silence = told.get_future();
  ASSERT_EQ(silence.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  const auto [server, silent] = silence.get();
  EXPECT_EQ(server, 0);
  EXPECT_GE(silent, kStepTimeout);
  server_->Signal(SIGKILL);
  server_->Wait();
  StartServer({"--durability=logged"});
  const Status pushed = done.get_future().get();
  EXPECT_TRUE(pushed.ok()) << pushed;
  const auto info = client->ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ((*info)[0].version, 2u);
}

// The launcher reports the stopped trainer as lost, and the job ends. The output of the job names
// this trainer as the first failure.
TEST_F(StallTest, AStoppedTrainerIsNamed) {
  const auto job = StartJob("stalled", {"--servers=1", "--workers=2"},
                            {"--epochs=1000", "--step_timeout_ms=3000", "--log_every_steps=1"});
  ASSERT_TRUE(job->WaitForText("step=3 ")) << job->Output();
  const pid_t trainer = TrainerOf(*job, 1);
  ASSERT_NE(trainer, 0);
  const Time begin = SteadyNow();
  kill(trainer, SIGSTOP);
  EXPECT_EQ(job->Wait(), 200) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("first failure  trainer 1 on host"));
  EXPECT_THAT(job->Output(), HasSubstr("[TD3012]"));
  std::printf("stall: a job of which a trainer is stopped ended after %.1f s\n",
              Seconds(SteadyNow() - begin));
  EXPECT_THAT(job->Output(), HasSubstr("trainer 1 is lost"));
}

}  // namespace
}  // namespace tandem
