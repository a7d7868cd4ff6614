// Tests servers and clients in one process, over loopback.
#include "pserver/pserver.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <thread>

#include "common/os/ports.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

TEST_F(PserverTest, TwoServersTwoTrainersEqualSerialBitForBit) {
  StartServers(2);
  Model models[2], serial;
  std::vector<std::vector<float>> velocity = serial.params;
  for (auto& v : velocity) std::fill(v.begin(), v.end(), 0.0f);
  // The values of trainer 1 are unused, because trainer 0 sends the initial values.
  for (auto& p : models[1].params) std::fill(p.begin(), p.end(), -1.0f);
  Status results[2];
  std::vector<std::thread> threads;
  for (int t : {0, 1}) {
    threads.emplace_back([&, t] {
      auto client = Client(t, 2);
      if (!client.ok()) {
        results[t] = client.status();
        return;
      }
      const auto state =
          (*client)->Configure(models[t].variables, ps::PsMode::kSync, {"momentum", {}});
      results[t] = state.status();
      if (!state.ok()) return;
      const auto first = (*client)->InitOrFetch(models[t].Tensors());
      results[t] = first.status();
      if (first.ok()) TrainSync(client->get(), &models[t], t, 0, 30, &results[t]);
      if (results[t].ok()) results[t] = (*client)->Barrier("end");
      if (results[t].ok()) results[t] = (*client)->Complete();
    });
  }
  for (auto& thread : threads) thread.join();
  for (uint64_t step = 0; step < 30; ++step) SerialStep(serial, velocity, step, 0.05f);
  for (int t : {0, 1}) {
    ASSERT_TRUE(results[t].ok()) << results[t];
    EXPECT_EQ(models[t].params, serial.params) << t;
  }
}

// Each step uses one message to each server, as the product's trainer does. The message carries
// gradients to the server, and the reply carries parameters back.
TEST_F(PserverTest, PushAndPullInOneMessageGiveTheBitsOfTwo) {
  StartServers(2);
  Model models[2], serial;
  std::vector<std::vector<float>> velocity = serial.params;
  for (auto& v : velocity) std::fill(v.begin(), v.end(), 0.0f);
  std::unique_ptr<ps::PsClient> clients[2];
  for (int t : {0, 1}) {
    clients[t] = *Client(t, 2);
    ASSERT_TRUE(
        clients[t]->Configure(models[t].variables, ps::PsMode::kSync, {"momentum", {}}).ok());
  }
  for (int t : {0, 1}) ASSERT_TRUE(clients[t]->InitOrFetch(models[t].Tensors()).ok());
  for (uint64_t step = 0; step < 8; ++step) {
    std::vector<std::vector<float>> g[2];
    Answer<StatusOr<uint64_t>> answers[2];
    for (int t : {1, 0}) {
      g[t] = models[t].Gradients(t, step);
      clients[t]->PushPull(step, 0.05f, models[t].View(g[t]), {.version = step + 1},
                           models[t].Tensors(), answers[t].Callback());
    }
    SerialStep(serial, velocity, step, 0.05f);
    for (int t : {0, 1}) {
      const StatusOr<uint64_t> version = answers[t].Get();
      ASSERT_TRUE(version.ok()) << version.status();
      EXPECT_EQ(*version, step + 1);
      EXPECT_EQ(models[t].params, serial.params) << t;
    }
  }
}

TEST_F(PserverTest, AsyncAppliesEveryPush) {
  StartServers(2);
  Model model;
  auto client = Client(0, 1);
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE((*client)->Configure(model.variables, ps::PsMode::kASync, {}).ok());
  ASSERT_TRUE((*client)->InitOrFetch(model.Tensors()).ok());
  const auto before = model.params;
  std::vector<std::vector<float>> ones = model.params;
  for (auto& values : ones) std::fill(values.begin(), values.end(), 1.0f);
  for (uint64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(PushAndWait(**client, step, 0.25f, model.View(ones)).ok());
  }
  EXPECT_EQ(*PullAndWait(**client, 4, model.Tensors()), 4u);
  EXPECT_FLOAT_EQ(model.params[2][7], before[2][7] - 1.0f);
}

TEST_F(PserverTest, RestartFromCheckpointContinuesWithTheSameBits) {
  PserverOptions options;
  options.data_dir = dir_;
  Model model, reference;
  Status status;
  std::vector<ps::PsSlot> slots;
  {
    StartServers(2, options);
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}}).ok());
    ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
    TrainSync(client.get(), &model, 0, 0, 5, &status);
    ASSERT_TRUE(status.ok()) << status;
    const auto saved = client->Save();
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(*saved, 5u);
    slots = *client->PullState();
    EXPECT_FALSE(slots.empty());
    reference = model;
    TrainSync(client.get(), &reference, 0, 5, 9, &status);
    ASSERT_TRUE(status.ok()) << status;
  }
  servers_.clear();
  endpoints_.clear();
  StartServers(2, options);
  EXPECT_EQ(servers_[0]->restored_version(), 5u);
  auto client = *Client(0, 1);
  const auto state = client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}});
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->restored && state->initialised);
  EXPECT_EQ(state->version, 5u);
  Model continued;
  EXPECT_EQ(*client->InitOrFetch(continued.Tensors()), 5u);
  EXPECT_EQ(continued.params, model.params);
  TrainSync(client.get(), &continued, 0, 5, 9, &status);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(continued.params, reference.params);
  // Makes the running servers restore their checkpoint.
  EXPECT_EQ(*client->Restore(), 5u);
  EXPECT_EQ((*client->ServerInfo())[1].version, 5u);
  // New servers start without a checkpoint and get the values, the slots and the step from a
  // checkpoint of the trainer.
  servers_.clear();
  endpoints_.clear();
  StartServers(3);
  auto other = *Client(0, 1);
  ASSERT_TRUE(other->Configure(model.variables, ps::PsMode::kSync, {"adam", {}}).ok());
  ASSERT_EQ(*other->InitOrFetch(model.Tensors(), 5, slots), 5u);
  TrainSync(other.get(), &model, 0, 5, 9, &status);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(model.params, reference.params);
}

TEST_F(PserverTest, CheckpointOfAnotherJobIsRefused) {
  PserverOptions options;
  options.data_dir = dir_;
  StartServers(1, options);
  Model model;
  {
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
    ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
    ASSERT_TRUE(client->Save().ok());
  }
  servers_.clear();
  options.job = "other";
  const auto refused = Pserver::Start(options, metrics_);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("this server serves job"));
}

TEST_F(PserverTest, DataFolderInUseIsRefused) {
  PserverOptions options;
  options.data_dir = dir_;
  StartServers(1, options);
  EXPECT_EQ(Pserver::Start(options, metrics_).status().code(), StatusCode::kUnavailable);
}

// Trainer 1 pushes later than trainer 0 in each step. The test repeats the steps until the reported
// waiting times show the difference, so that other load of the machine does not matter.
TEST_F(PserverTest, ItIsKnownWhoWaits) {
  StartServers(2);
  Model model;
  auto zero = *Client(0, 2), one = *Client(1, 2);
  ASSERT_TRUE(zero->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(one->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(zero->InitOrFetch(model.Tensors()).ok());
  std::vector<double> waited = {0, 0};
  for (uint64_t step = 0; step < 1000 && waited[0] < waited[1] + 0.05; ++step) {
    Model early, late;
    Answer<StatusOr<uint64_t>> first, second;
    const ps::PullCondition when{.version = step + 1};
    zero->PushPull(step, 0.1f, early.View(early.params), when, early.Tensors(), first.Callback());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    one->PushPull(step, 0.1f, late.View(late.params), when, late.Tensors(), second.Callback());
    ASSERT_TRUE(first.Get().ok());
    ASSERT_TRUE(second.Get().ok());
    Answer<StatusOr<std::vector<double>>> told;
    one->AskWaits(told.Callback());
    const auto now = told.Get();
    ASSERT_TRUE(now.ok()) << now.status();
    ASSERT_EQ(now->size(), 2u);
    waited = *now;
  }
  EXPECT_GE(waited[0], waited[1] + 0.05);
}

TEST_F(PserverTest, AMissingTrainerIsNamedByTheDeadline) {
  StartServers(1);
  Model model;
  auto zero = *Client(0, 2, {.patience = {.step_timeout = seconds(2)}});
  auto one = *Client(1, 2, {.patience = {.step_timeout = seconds(2)}});
  ASSERT_TRUE(zero->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(one->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(zero->InitOrFetch(model.Tensors()).ok());
  ASSERT_TRUE(PushAndWait(*zero, 0, 0.1f, model.View(model.params)).ok());
  const Time start = SteadyNow();
  const Status status = PullAndWait(*zero, 1, model.Tensors()).status();
  EXPECT_LT(SteadyNow() - start, seconds(60));
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("pserver 0 (127.0.0.1:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("trainer 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 1"));
}

TEST_F(PserverTest, ErrorsNameServerVariableAndStep) {
  StartServers(2);
  Model model;
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  auto bad = model.params;
  bad[1][3] = std::nanf("");
  const Status nan = PushAndWait(*client, 0, 0.1f, model.View(bad));
  EXPECT_EQ(nan.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(nan.message()),
              testing::ContainsRegex("push of step 1: pserver [01] .*trainer 0 step 1: gradient of "
                                     "fc_0.b, element 3 is NaN"));
  const Status unknown = PushAndWait(*client, 0, 0.1f, {{"fc_0.c", bad[0].data(), 3}});
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("did you mean"));
  EXPECT_EQ(PushAndWait(*client, 0, 0.1f, {{"fc_0.b", bad[0].data(), 3}}).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(PserverTest, ConfigurationsMustAgree) {
  StartServers(1);
  Model model;
  auto zero = *Client(0, 2), one = *Client(1, 2);
  ASSERT_TRUE(zero->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  const Status status = one->Configure(model.variables, ps::PsMode::kASync, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mode is a_sync, was sync"));
}

TEST_F(PserverTest, WrongOrMissingSecretIsRefused) {
  PserverOptions options;
  options.job = "job";
  options.secret = "0123456789abcdef";
  StartServers(1, options);
  Model model;
  auto stranger = *Client(0, 1), liar = *Client(0, 1, {.security = {.secret = "0123456789abcdeX"}});
  auto friend_ = *Client(0, 1, {.security = {.secret = "0123456789abcdef"}});
  for (ps::PsClient* client : {stranger.get(), liar.get()}) {
    EXPECT_EQ(client->Configure(model.variables, ps::PsMode::kSync, {}).status().code(),
              StatusCode::kUnauthenticated);
    EXPECT_EQ(client->ServerInfo().status().code(), StatusCode::kUnauthenticated);
  }
  EXPECT_TRUE(friend_->Configure(model.variables, ps::PsMode::kSync, {}).ok());
}

TEST_F(PserverTest, AnAbsentServerIsWaitedForAndNamed) {
  StartServers(1);
  const auto port = FreePorts("127.0.0.1", 1);
  ASSERT_TRUE(port.ok()) << port.status();
  const std::string absent = "127.0.0.1:" + std::to_string(*port);
  endpoints_.push_back(absent);
  std::vector<std::string> messages;
  ps::PsOptions options;
  options.patience.start_timeout = milliseconds(2200);
  options.callbacks.on_wait = [&messages](const std::string& m) { messages.push_back(m); };
  const auto client = Client(0, 1, options);
  EXPECT_EQ(client.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()),
              HasSubstr("pserver 1 (" + absent + ") did not reply within 2 s"));
  ASSERT_GE(messages.size(), 2u);
  EXPECT_THAT(messages[1], HasSubstr("waiting for pserver 1 (" + absent + ") ("));
  EXPECT_THAT(messages[1], HasSubstr(" s of 2 s)"));

  // If a client is asked to stop while it waits for a server, the wait must end.
  options.patience.start_timeout = std::chrono::minutes(2);
  options.callbacks.stop = [] { return true; };
  const Time begin = SteadyNow();
  EXPECT_EQ(Client(0, 1, options).status().code(), StatusCode::kCancelled);
  EXPECT_LT(SteadyNow() - begin, std::chrono::minutes(1));
}

void SendBytes(const std::string& endpoint, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<uint16_t>(std::stoi(endpoint.substr(endpoint.find(':') + 1))));
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  close(fd);
}

TEST_F(PserverTest, GarbageOnThePortHarmsNobody) {
  StartServers(1);
  std::mt19937 random(11);
  for (int i = 0; i < 100; ++i) {
    std::string bytes(200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 3 == 1) bytes.insert(0, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    if (i % 3 == 2) bytes = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    SendBytes(endpoints_[0], bytes);
  }
  Model model;
  Status status;
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  TrainSync(client.get(), &model, 0, 0, 3, &status);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(PserverTest, AServerThatGoesAwayEndsCallsInTime) {
  StartServers(1);
  Model model;
  auto client = *Client(0, 2, {.patience = {.step_timeout = seconds(2)}});
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  Answer<StatusOr<uint64_t>> pulled;
  client->Pull(1, model.Tensors(), pulled.Callback());
  EXPECT_TRUE(servers_[0]->Drain(SteadyNow() + seconds(1)).ok());
  servers_.clear();
  const Time start = SteadyNow();
  const Status status = pulled.Get().status();
  EXPECT_LT(SteadyNow() - start, seconds(60));
  EXPECT_THAT(std::string(status.message()), HasSubstr("pull of version 1: pserver 0 (127.0.0.1:"));
  EXPECT_THAT(std::string(status.message()),
              testing::ContainsRegex("no reply to [A-Za-z]+ within [0-9.]+ s \\[TD4025\\]"))
      << status;
}

TEST_F(PserverTest, DestroyingTheClientEndsItsCalls) {
  StartServers(1);
  Model model;
  auto client = *Client(0, 2);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  Answer<StatusOr<uint64_t>> pulled;
  client->Pull(1, model.Tensors(), pulled.Callback());
  client.reset();
  EXPECT_EQ(pulled.Get().status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace tandem::pserver
