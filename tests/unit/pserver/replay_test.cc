// The durability `replayable`: servers store checkpoints and the order of later pushes, and
// trainers keep the values of these pushes.
#include <thread>

#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

class ReplayTest : public PserverTest {
 protected:
  // Ends the servers before their directory is removed.
  void TearDown() override { servers_.clear(); }
  PserverOptions Options() const {
    PserverOptions options;
    options.data_dir = dir_;
    options.durability = Durability::kReplayable;
    return options;
  }
  // Restarts a server without a save, as after a kill.
  Status StartAgain(PserverOptions options, int index = 0) {
    servers_[index].reset();
    options.index = index;
    options.rpc.listen = *ParseEndpoint(endpoints_[index]);
    TD_ASSIGN_OR_RETURN(servers_[index], Pserver::Start(options, metrics_));
    return OkStatus();
  }
  static StatusOr<ps::PsState> Configure(ps::PsClient& client, const Model& model,
                                         ps::PsMode mode = ps::PsMode::kASync) {
    return client.Configure(model.variables, mode, {"adam", {}});
  }
};

TEST_F(ReplayTest, TheStateIsThatOfBefore) {
  StartServers(1, Options());
  Model model, reference;
  Status status;
  for (Model* m : {&reference, &model}) {
    if (m == &model) {
      servers_.clear();
      endpoints_.clear();
      std::filesystem::remove_all(dir_ + "/shard-0");
      StartServers(1, Options());
    }
    auto client = *Client(0, 1);
    ASSERT_TRUE(Configure(*client, *m, ps::PsMode::kSync).ok());
    ASSERT_TRUE(client->InitOrFetch(m->Tensors()).ok());
    for (uint64_t step = 0; step < 12; step += 4) {
      TrainSync(client.get(), m, 0, step, step + 4, &status);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_GT(client->kept_bytes(), 0u);
      if (m == &reference) continue;
      ASSERT_TRUE(StartAgain(Options()).ok());
      EXPECT_LT(servers_[0]->Info().version, step + 4);
    }
    ASSERT_TRUE(client->Complete().ok());
    EXPECT_EQ(servers_[0]->Info().version, 12u);
  }
  EXPECT_EQ(model.params, reference.params);
  // The replay does not need a trainer that has finished the job.
  ASSERT_TRUE(StartAgain(Options()).ok());
  EXPECT_EQ(servers_[0]->Info().version, 12u);
}

TEST_F(ReplayTest, WhatATrainerKeepsHasABound) {
  PserverOptions options = Options();
  options.keep_bytes_max = 10'000;  // limit for the values that a trainer keeps: about five steps
  StartServers(2, options);
  Model model;
  Status status;
  auto client = *Client(0, 1);
  ASSERT_TRUE(Configure(*client, model, ps::PsMode::kSync).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  for (uint64_t step = 0; step < 30; ++step) {
    TrainSync(client.get(), &model, 0, step, step + 1, &status);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LE(client->kept_bytes(), 10'000u);
  }
  const auto servers = client->ServerInfo();
  ASSERT_TRUE(servers.ok()) << servers.status();
  for (const ps::PsServerInfo& info : *servers) EXPECT_GE(info.checkpoint_version, 15u);
}

// A server counts a push as lost if the push is not in the checkpoint and the trainer that kept its
// values has ended.
TEST_F(ReplayTest, WhatIsGoneIsCounted) {
  StartServers(1, Options());
  Model model;
  std::unique_ptr<ps::PsClient> clients[2] = {*Client(0, 2), *Client(1, 2)};
  for (auto& client : clients) ASSERT_TRUE(Configure(*client, model).ok());
  for (auto& client : clients) ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  const auto g = model.Gradients(0, 0);
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(PushAndWait(*clients[0], step, 0.1f, model.View(g)).ok());
  }
  for (uint64_t step = 0; step < 2; ++step) {
    ASSERT_TRUE(PushAndWait(*clients[1], step, 0.1f, model.View(g)).ok());
  }
  ASSERT_TRUE(StartAgain(Options()).ok());
  EXPECT_EQ(servers_[0]->Info().version, 0u);
  clients[1] = *Client(1, 2);
  StatusOr<ps::PsState> state;
  std::thread successor([&] { state = Configure(*clients[1], model); });
  // The new process of trainer 1 waits for trainer 0. The server requests the kept pushes of
  // trainer 0 when trainer 0 pulls.
  const StatusOr<uint64_t> version = PullAndWait(*clients[0], 0, model.Tensors());
  successor.join();
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(*version, 5u);  // each lost push counts as a step that changes nothing
  const ShardInfo info = servers_[0]->Info();
  EXPECT_EQ(info.trainers[0].lost_pushes, 0u);
  EXPECT_EQ(info.trainers[1].lost_pushes, 2u);
  // Checkpoints contain the number of lost pushes.
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  ASSERT_TRUE(StartAgain(Options()).ok());
  EXPECT_EQ(servers_[0]->Info().trainers[1].lost_pushes, 2u);
}

// Trainer 0 waits at server 0. It must nevertheless send its kept pushes to the restarted server 1.
// Otherwise the trainers would wait for each other forever.
TEST_F(ReplayTest, ATrainerThatWaitsAtAnotherServerHearsOfIt) {
  StartServers(2, Options());
  Model model;
  std::unique_ptr<ps::PsClient> clients[2] = {*Client(0, 2), *Client(1, 2)};
  for (auto& client : clients) ASSERT_TRUE(Configure(*client, model).ok());
  for (auto& client : clients) ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  ASSERT_TRUE(PushAndWait(*clients[0], 0, 0.1f, model.View(model.Gradients(0, 0))).ok());
  ASSERT_TRUE(StartAgain(Options(), 1).ok());
  EXPECT_EQ(servers_[1]->Info().version, 0u);
  Status met = Unimplemented("pending");
  // Trainer 0 waits at a barrier of server 0.
  std::thread first([&] { met = clients[0]->Barrier("all"); });
  EXPECT_EQ(PullAndWait(*clients[1], 0, model.Tensors()).status(), OkStatus());
  EXPECT_EQ(clients[1]->Barrier("all"), OkStatus());
  first.join();
  EXPECT_EQ(met, OkStatus());
  EXPECT_EQ(servers_[1]->Info().version, 1u);
}

// A new process replaces a trainer while the server runs. No push may be lost, because the server
// writes a checkpoint with the pushes of the older process at once.
TEST_F(ReplayTest, WhoeverIsReplacedIsNeededNoMore) {
  StartServers(1, Options());
  Model model;
  auto client = *Client(0, 1);
  ASSERT_TRUE(Configure(*client, model).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  ASSERT_TRUE(PushAndWait(*client, 0, 0.1f, model.View(model.Gradients(0, 0))).ok());
  client = *Client(0, 1);
  ASSERT_TRUE(Configure(*client, model).ok());
  const Time deadline = SteadyNow() + std::chrono::seconds(30);
  while ((*client->ServerInfo())[0].checkpoint_version == 0 && SteadyNow() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(StartAgain(Options()).ok());
  EXPECT_EQ(servers_[0]->Info().version, 1u);
}

TEST_F(ReplayTest, WhereItCannotHoldItIsRefused) {
  PserverOptions options = Options();
  StartServers(1, options);
  Model model;
  ps::PsOptions compensated;
  compensated.rules.delay_compensation = 0.1;
  const StatusOr<ps::PsState> refused = Configure(**Client(0, 1, compensated), model);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()),
              testing::HasSubstr("enable_dc_asgd is not supported"));
  auto client = *Client(0, 1);
  ASSERT_TRUE(Configure(*client, model).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  ASSERT_TRUE(PushAndWait(*client, 0, 0.1f, model.View(model.Gradients(0, 0))).ok());
  options.durability = Durability::kNone;
  const Status none = StartAgain(options);
  EXPECT_EQ(none.code(), StatusCode::kFailedPrecondition) << none;
  EXPECT_THAT(std::string(none.message()), testing::HasSubstr("--durability=replayable"));
  // A server with durability `logged` continues with its own log.
  options.durability = Durability::kLogged;
  ASSERT_TRUE(StartAgain(options).ok());
  EXPECT_EQ(*PullAndWait(*client, 0, model.Tensors()), 1u);
}

}  // namespace
}  // namespace tandem::pserver
