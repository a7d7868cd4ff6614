// Tests read replicas over loopback: readers get the values of the primary.
#include "pserver/replica.h"

#include <filesystem>
#include <thread>

#include "pserver/client/reader.h"
#include "pserver/standby.h"
#include "tests/unit/pserver/replica_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

TEST_F(ReplicaTest, ReadersGetTheDenseVariablesOfThePrimary) {
  StartPrimary("a");
  const auto replica = ReplicaOf(endpoints_[0], "r");
  Model model;
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  Status status;
  TrainSync(client.get(), &model, 0, 0, 5, &status);
  ASSERT_TRUE(status.ok()) << status;
  const auto reader = ReaderOf({Await(*replica, 5)});
  const auto dense = reader->ReadDense();
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_EQ(dense->versions, std::vector<uint64_t>{5});
  ASSERT_EQ(dense->variables.size(), model.params.size());
  for (size_t i = 0; i < model.variables.size(); ++i) {
    EXPECT_EQ(dense->variables.at(model.variables[i].name), model.params[i]);
  }
}

TEST_F(ReplicaTest, ReadersOfSeveralReplicasGetTheRowsOfAllServers) {
  StartPrimary("a", 0);
  StartPrimary("b", 1);
  const auto client = TableClient();
  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<std::string> addresses;
  for (const int s : {0, 1}) {
    replicas.push_back(ReplicaOf(endpoints_[static_cast<size_t>(s)], "r" + std::to_string(s), s));
  }
  for (uint64_t step = 0; step < 50; ++step)
    PushRows(*client, step, static_cast<int64_t>(step) * 7);
  for (const auto& replica : replicas) addresses.push_back(Await(*replica, 50));
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < 400; ++id) ids.push_back(id);
  std::ranges::reverse(addresses);  // in any order
  const auto at_replicas = ReaderOf(addresses)->ReadRows("emb", ids);
  const auto at_servers = ReaderOf(endpoints_)->ReadRows("emb", ids);
  ASSERT_TRUE(at_replicas.ok()) << at_replicas.status();
  ASSERT_TRUE(at_servers.ok()) << at_servers.status();
  EXPECT_EQ(at_replicas->dim, 4);
  EXPECT_EQ(at_replicas->versions, (std::vector<uint64_t>{50, 50}));
  EXPECT_EQ(at_replicas->values, at_servers->values);
  const auto trained = client->PullTable("emb", /*slots=*/false);
  ASSERT_TRUE(trained.ok());
  EXPECT_EQ(trained->ids.size(), 100u);  // the reads created no row
}

// A replica that was away while the primary shortened its log fetches the checkpoint again.
TEST_F(ReplicaTest, AReplicaThatWasAwayCatchesUp) {
  log_bytes_max_ = 4000;
  StartPrimary("a");
  const auto client = TableClient();
  auto replica = ReplicaOf(endpoints_[0], "r");
  uint64_t step = 0;
  for (; step < 10; ++step) PushRows(*client, step, 3);
  Await(*replica, 10);
  replica.reset();
  for (; step < 200; ++step) PushRows(*client, step, static_cast<int64_t>(step));
  replica = ReplicaOf(endpoints_[0], "r");
  const auto reader = ReaderOf({Await(*replica, 200)});
  const std::vector<int64_t> ids = {3, 4, 100, 199, 900};
  const auto rows = reader->ReadRows("emb", ids);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->values, ReaderOf(endpoints_)->ReadRows("emb", ids)->values);
}

// The state of a replica is not needed, so it is replaced when its primary has another one.
TEST_F(ReplicaTest, AReplicaFollowsARestoredPrimary) {
  StartPrimary("a");
  const auto client = TableClient();
  for (uint64_t step = 0; step < 5; ++step) PushRows(*client, step, 3);
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  const auto replica = ReplicaOf(endpoints_[0], "r");
  for (uint64_t step = 5; step < 9; ++step) PushRows(*client, step, 3);
  Await(*replica, 9);
  ASSERT_EQ(*client->Restore(), 5u);
  const Time until = SteadyNow() + kPatience;
  StatusOr<ps::Reader::Rows> rows = NotFound("not read yet");
  while (SteadyNow() < until) {
    if (const auto endpoint = replica->endpoint()) {
      const auto reader = ps::Reader::Connect({ToString(*endpoint)}, {});
      if (reader.ok()) rows = (*reader)->ReadRows("emb", std::vector<int64_t>{3});
      if (rows.ok() && rows->versions[0] == 5) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->versions[0], 5u);
  EXPECT_EQ(rows->values, ReaderOf(endpoints_)->ReadRows("emb", std::vector<int64_t>{3})->values);
}

// A replica never shows a push that the promotion of a standby could take back.
TEST_F(ReplicaTest, AReplicaGetsAPushOnlyWhenAStandbyHasIt) {
  PserverOptions options = OptionsOf("a");
  options.standbys = 1;
  options.rpc.listen = {.path = dir_ + "/socket"};
  auto primary = Pserver::Start(options, metrics_);
  ASSERT_TRUE(primary.ok()) << primary.status();
  servers_.push_back(*std::move(primary));
  endpoints_ = {ToString(options.rpc.listen)};
  PserverOptions of_standby = options;
  of_standby.member = 1;
  of_standby.data_dir = dir_ + "/b";
  auto standby = *Standby::Start(of_standby, metrics_);
  ASSERT_EQ(standby->Follow(options.rpc.listen, 1), OkStatus());
  const auto client = TableClient();
  PushRows(*client, 0, 3);
  const auto replica = ReplicaOf(endpoints_[0], "r");
  const auto reader = ReaderOf({Await(*replica, 1)});
  standby.reset();
  const std::vector<int64_t> ids = {3};
  const std::vector<float> ones(4, 1.0f);
  Answer<Status> answer;
  client->Push(1, 0.1f, {}, answer.Callback(), {{"emb", ids, ones.data()}});
  const Time until = SteadyNow() + kPatience;
  while (servers_[0]->Info().version < 2 && SteadyNow() < until) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(reader->ReadRows("emb", ids)->versions[0], 1u);
  standby = *Standby::Start(of_standby, metrics_);
  ASSERT_EQ(standby->Follow(options.rpc.listen, 2), OkStatus());
  EXPECT_TRUE(answer.Get().ok());
  while (reader->ReadRows("emb", ids)->versions[0] < 2 && SteadyNow() < until) {
  }
  EXPECT_EQ(reader->ReadRows("emb", ids)->versions[0], 2u);
}

TEST_F(ReplicaTest, OnlyReadersMayCallAReplica) {
  StartPrimary("a");
  const auto client = TableClient();
  PushRows(*client, 0, 3);
  const auto replica = ReplicaOf(endpoints_[0], "r");
  endpoints_ = {Await(*replica, 1)};
  auto trainer = *Client(0, 1);
  EXPECT_THAT(
      std::string(
          trainer->Configure({}, ps::PsMode::kASync, {"adagrad", {}}, {kTable}).status().message()),
      HasSubstr("this server is a replica, which does not answer"));
  const auto reader = ReaderOf(endpoints_);
  EXPECT_EQ(reader->ReadRows("none", std::vector<int64_t>{3}).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(reader->ReadRows("emb", std::vector<int64_t>{-1}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(reader->ReadRows("emb", {}).status().code(), StatusCode::kInvalidArgument);
  PserverOptions none = OptionsOf("x");
  none.durability = Durability::kNone;
  EXPECT_THAT(std::string(Replica::Start(none, {}, metrics_).status().message()),
              HasSubstr("a replica keeps a log"));
}

}  // namespace
}  // namespace tandem::pserver
