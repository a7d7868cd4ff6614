// Tests standby servers over loopback: a primary loses its directory, and its standby takes over.
#include "tests/unit/pserver/pserver_fixture.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "common/base/endpoint.h"
#include "common/base/rng.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/standby.h"
#include "tests/support/push_ledger.h"

namespace tandem::pserver {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

class ReplicationTest : public PserverTest {
 protected:
  // Options of the server with this name. The name is also the name of its directory.
  PserverOptions OptionsOf(const std::string& name, int standbys = 1) const {
    PserverOptions options;
    options.job = job_;
    options.rpc.listen = listen_;
    options.rpc.patience = kPatience;
    options.log_bytes_max = log_bytes_max_;
    options.data_dir = dir_ + "/" + name;
    options.cold_dir = dir_ + "/cold-" + name;
    options.durability = Durability::kLogged;
    options.standbys = standbys;
    options.replication = replication_;
    options.shm_rpc = false;
    return options;
  }
  // Starts the member that has the number of the primary plus `distance`.
  std::unique_ptr<Standby> StandbyOf(const Endpoint& primary, const std::string& name,
                                     int distance = 1, int standbys = 1) {
    PserverOptions options = OptionsOf(name, standbys);
    options.member = (primary_member_ + distance) % (standbys + 1);
    standby_member_ = options.member;
    auto standby = Standby::Start(std::move(options), metrics_);
    CHECK(standby.ok()) << standby.status();
    CHECK((*standby)->Follow(primary, ++standby_starts_).ok());
    return *std::move(standby);
  }
  void StartPrimary(const std::string& name, int standbys = 1) {
    auto primary = Pserver::Start(OptionsOf(name, standbys), metrics_);
    ASSERT_TRUE(primary.ok()) << primary.status();
    standby_member_ = 0;
    Serve(*std::move(primary));
  }
  // Makes `server`, the last started member, the server that clients use.
  void Serve(std::unique_ptr<Pserver> server) {
    primary_member_ = standby_member_;
    servers_.clear();
    endpoints_ = {ToString(server->endpoint())};
    servers_.push_back(std::move(server));
  }
  const Endpoint& primary() const { return servers_[0]->endpoint(); }
  // Ends the primary without a checkpoint and deletes its directory.
  void LosePrimary(const std::string& name) {
    servers_.clear();
    std::filesystem::remove_all(dir_ + "/" + name);
  }
  // Waits until the standby has state and all entries that its primary has written.
  void AwaitCurrent(const Standby& standby) {
    const Time until = SteadyNow() + kPatience;
    while (SteadyNow() < until) {
      const LogFollower::Progress now = standby.progress();
      if (now.current != Time() && now.position.last >= now.primary_last) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    FAIL() << "the standby does not catch up: " << standby.progress().status;
  }
  // Waits until the primary refuses the standby with a message that contains `text`.
  void ExpectRefused(const Standby& standby, const std::string& text) {
    const Time until = SteadyNow() + kPatience;
    while (standby.progress().status.ok() && SteadyNow() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_THAT(std::string(standby.progress().status.message()), testing::HasSubstr(text));
  }
  // Configures a client and trains the model from `from` to `to`.
  void Train(Model& model, uint64_t from, uint64_t to) {
    auto client = *Client(0, 1);
    const auto state = client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}});
    ASSERT_TRUE(state.ok()) << state.status();
    Model fetched = model;
    const auto version = client->InitOrFetch(fetched.Tensors());
    ASSERT_TRUE(version.ok()) << version.status();
    ASSERT_EQ(*version, from);
    EXPECT_EQ(fetched.params, model.params);
    Status status;
    TrainSync(client.get(), &model, 0, from, to, &status);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::string job_ = "job";
  int primary_member_ = 0, standby_member_ = 0;
  uint64_t standby_starts_ = 0;
  uint64_t LostPushes() { return servers_[0]->Info().trainers.at(0).lost_pushes; }
  static Status PushOne(ps::PsClient& client, const Model& model, uint64_t step) {
    const auto gradients = model.Gradients(0, step);
    Answer<Status> answer;
    client.Push(step, 0.1f, model.View(gradients), answer.Callback());
    return answer.Get();
  }

  Replication replication_ = Replication::kQuorum;
  Endpoint listen_{"127.0.0.1", 0};  // address of each primary
  uint64_t log_bytes_max_ = uint64_t{256} << 20;
};

TEST_F(ReplicationTest, AStandbyHasAllAcknowledgedPushesAfterThePrimaryLostItsDirectory) {
  Model reference, model;
  StartServers(1);  // the reference: a server without standbys
  Train(reference, 0, 24);
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  const std::string names[] = {"a", "b", "c", "d", "e"};  // by term
  uint64_t term = 1;
  for (uint64_t begin = 0; begin < 24; begin += 8) {
    Train(model, begin, begin + 8);
    LosePrimary(names[term - 1]);
    auto promoted = standby->Promote(++term);
    ASSERT_TRUE(promoted.ok()) << promoted.status();
    EXPECT_EQ((*promoted)->Info().version, begin + 8);
    Serve(*std::move(promoted));
    standby = StandbyOf(primary(), names[term]);
  }
  EXPECT_EQ(model.params, reference.params);
}

TEST_F(ReplicationTest, APushIsAcknowledgedOnlyWhenAStandbyHasIt) {
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Model model;
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kASync, {"sgd", {}}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  standby.reset();
  const auto gradients = model.Gradients(0, 0);
  Answer<Status> answer;
  std::atomic<bool> answered = false;
  client->Push(0, 0.1f, model.View(gradients), [&](const Status& status) {
    answered = true;
    answer.Callback()(status);
  });
  const Time until = SteadyNow() + kPatience;
  while (servers_[0]->Info().version == 0 && SteadyNow() < until) std::this_thread::yield();
  EXPECT_EQ(servers_[0]->Info().version, 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(answered);
  standby = StandbyOf(primary(), "b");
  EXPECT_TRUE(answer.Get().ok());
  const std::vector<StandbyInfo> known = servers_[0]->standbys();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_TRUE(known[0].current);
}

// With async replication, pushes do not wait for the standby. The promoted standby counts the
// acknowledged pushes that it lacks, also those of a trainer that only completes the job.
TEST_F(ReplicationTest, AsyncReplicationCountsThePushesThatItLoses) {
  replication_ = Replication::kAsync;
  listen_ = {.path = dir_ + "/socket"};
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(listen_, "b");
  Model model;
  ps::PsOptions options;
  options.patience.retries = 1000;
  auto client = *Client(0, 1, options);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kASync, {"sgd", {}}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  uint64_t step = 0;
  const auto push = [&](uint64_t count) {
    for (const uint64_t end = step + count; step < end; ++step) {
      EXPECT_EQ(PushOne(*client, model, step), OkStatus());
    }
  };
  const auto promote = [&](const std::string& lost, const std::string& name, uint64_t term) {
    LosePrimary(lost);
    standby = StandbyOf(listen_, name);
    auto promoted = standby->Promote(term);
    ASSERT_TRUE(promoted.ok()) << promoted.status();
    Serve(*std::move(promoted));
  };
  push(4);
  AwaitCurrent(*standby);
  standby.reset();
  push(5);
  promote("a", "b", 2);
  EXPECT_EQ(servers_[0]->Info().version, 4u);
  EXPECT_EQ(LostPushes(), 0u) << "no call of the trainer has reached the new primary";
  push(2);
  EXPECT_EQ(LostPushes(), 5u);
  EXPECT_EQ(servers_[0]->Info().version, 6u);

  standby = StandbyOf(listen_, "c");
  AwaitCurrent(*standby);
  standby.reset();
  push(700);  // more than a window of sequence numbers
  promote("b", "c", 3);
  EXPECT_EQ(LostPushes(), 5u) << "standbys count the same losses";
  std::thread completes([&] { EXPECT_EQ(client->Complete(), OkStatus()); });
  const Time until = SteadyNow() + kPatience;
  while (LostPushes() != 705u && SteadyNow() < until) std::this_thread::yield();
  EXPECT_EQ(LostPushes(), 705u);
  // A trainer leaves only when a standby has its last report.
  standby = StandbyOf(listen_, "d");
  completes.join();
  EXPECT_EQ(servers_[0]->Info().version, 6u);
}

TEST_F(ReplicationTest, AsyncReplicationRefusesJobsThatNeedEachPush) {
  replication_ = Replication::kAsync;
  StartPrimary("a");
  Model model;
  auto client = *Client(0, 1);
  const auto text = [](const Status& status) { return std::string(status.message()); };
  EXPECT_THAT(text(client->Configure(model.variables, ps::PsMode::kSync, {"sgd", {}}).status()),
              testing::HasSubstr("[TD4038]"));
  ps::PsOptions options;
  options.rules.each_step_once = true;
  options.incarnation = 2;
  client = *Client(0, 1, options);
  ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kASync, {"sgd", {}}).ok());
  ASSERT_TRUE(client->InitOrFetch(model.Tensors()).ok());
  EXPECT_THAT(text(PushOne(*client, model, 0)),
              testing::HasSubstr("streams, because it may lose steps [TD4038]"));
}

// The primary restarts from its directory. A repeated push is not acknowledged before the standby
// has the entry of the first attempt.
TEST_F(ReplicationTest, ARestartedPrimaryWaitsForItsStandbyAgain) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 4);
  AwaitCurrent(*standby);
  standby.reset();
  servers_.clear();
  StartPrimary("a");
  standby = StandbyOf(primary(), "b");
  Train(model, 4, 8);
  AwaitCurrent(*standby);
  EXPECT_EQ(standby->progress().position.term.number, 1u);
  EXPECT_EQ(standby->progress().position.term.start, 1u);
}

// A loss of power takes the newest entries of the primary, which the standby has. The restarted
// primary must not give their numbers to other pushes.
TEST_F(ReplicationTest, APrimaryThatLostEntriesIsRefused) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 2);
  AwaitCurrent(*standby);
  standby.reset();
  servers_.clear();
  std::filesystem::copy(dir_ + "/a", dir_ + "/early", std::filesystem::copy_options::recursive);
  StartPrimary("a");
  standby = StandbyOf(primary(), "b");
  Train(model, 2, 4);
  AwaitCurrent(*standby);
  LosePrimary("a");
  // The directory of an earlier moment has the term of that moment.
  std::filesystem::rename(dir_ + "/early", dir_ + "/a");
  StartPrimary("a");
  standby.reset();
  standby = StandbyOf(primary(), "b");
  ExpectRefused(*standby, "[TD4029]; hint: promote the standby");
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  EXPECT_EQ((*promoted)->Info().version, 4u);
}

TEST_F(ReplicationTest, TrainersOfASyncJobHaveTimeToReachThePromotedServer) {
  listen_ = {"127.0.0.1", 0};
  StartPrimary("a");
  listen_ = primary();
  std::unique_ptr<Standby> standby = StandbyOf(listen_, "b");
  Model models[2];
  std::unique_ptr<ps::PsClient> clients[2];
  ps::PsOptions options;
  options.patience.step_timeout = std::chrono::seconds(2);
  options.patience.retries = 1000;
  for (const int t : {0, 1}) {
    clients[t] = *Client(t, 2, options);
    ASSERT_TRUE(clients[t]->Configure(models[t].variables, ps::PsMode::kSync, {}).ok());
  }
  for (const int t : {0, 1}) ASSERT_TRUE(clients[t]->InitOrFetch(models[t].Tensors()).ok());
  AwaitCurrent(*standby);
  // The trainers call the primary, but not the standby, for longer than the time limit of a step.
  const Time until = SteadyNow() + std::chrono::milliseconds(2500);
  while (SteadyNow() < until) {
    for (const int t : {0, 1}) ASSERT_TRUE(PullAndWait(*clients[t], 0, models[t].Tensors()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  LosePrimary("a");
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  Serve(*std::move(promoted));
  standby = StandbyOf(listen_, "c");
  Status status[2];
  std::thread first([&] { TrainSync(clients[0].get(), &models[0], 0, 0, 1, &status[0]); });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  TrainSync(clients[1].get(), &models[1], 1, 0, 1, &status[1]);
  first.join();
  EXPECT_TRUE(status[0].ok()) << status[0];
  EXPECT_TRUE(status[1].ok()) << status[1];
  EXPECT_EQ(models[0].params, models[1].params);
}

TEST_F(ReplicationTest, TheSecondOfTwoStandbysContinuesWithThePromotedOne) {
  Model model;
  StartPrimary("a", 2);
  std::unique_ptr<Standby> first = StandbyOf(primary(), "b", 1, 2);
  std::unique_ptr<Standby> second = StandbyOf(primary(), "c", 2, 2);
  Train(model, 0, 6);
  AwaitCurrent(*first);
  AwaitCurrent(*second);
  // The newest push was acknowledged when one of the standbys had it. The newest reply to the other
  // one may precede this push.
  const Time until = SteadyNow() + kPatience;
  while (first->progress().position.last != second->progress().position.last) {
    ASSERT_LT(SteadyNow(), until);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  LosePrimary("a");
  second.reset();
  auto promoted = first->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  standby_member_ = 1;
  Serve(*std::move(promoted));
  second = StandbyOf(primary(), "c", 1, 2);
  Train(model, 6, 12);
  AwaitCurrent(*second);
  EXPECT_EQ(second->progress().position.term.number, 2u);
  EXPECT_EQ(servers_[0]->Info().version, 12u);
}

TEST_F(ReplicationTest, RowsAndDeletedLogsReachAStandbyThatJoinsLate) {
  log_bytes_max_ = 4000;  // a checkpoint every few pushes, which shortens the log
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  const ps::PsTable table = {"emb", 1000, 4, ps::PsTable::InitKind::kUniform, -0.1f, 0.1f, 1, ""};
  auto client = *Client(0, 1);
  ASSERT_TRUE(client->Configure({}, ps::PsMode::kASync, {"adagrad", {}}, {table}).ok());
  ASSERT_TRUE(client->InitOrFetch({}).ok());
  uint64_t step = 0;
  const auto push = [&](int64_t id) {
    const std::vector<int64_t> ids = {id, id + 1};
    const std::vector<float> g = {1, 2, 3, 4, 5, 6, 7, static_cast<float>(step)};
    Answer<Status> answer;
    client->Push(step++, 0.1f, {}, answer.Callback(), {{"emb", ids, g.data()}});
    const Status status = answer.Get();
    ASSERT_TRUE(status.ok()) << status;
  };
  for (int64_t id = 0; id < 100; ++id) push(3 * id);
  standby.reset();
  std::filesystem::remove_all(dir_ + "/b");
  standby = StandbyOf(primary(), "b");  // begins from a checkpoint
  for (int64_t id = 0; id < 50; ++id) push(5 * id);
  const auto rows = [&] {
    auto reader = *Client(0, 1);
    CHECK(reader->Configure({}, ps::PsMode::kASync, {"adagrad", {}}, {table}).ok());
    auto pulled = reader->PullTable("emb", /*slots=*/true);
    CHECK(pulled.ok()) << pulled.status();
    return *std::move(pulled);
  };
  const ps::PsTableRows before = rows();
  LosePrimary("a");
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  Serve(*std::move(promoted));
  standby = StandbyOf(primary(), "c");
  const ps::PsTableRows after = rows();
  EXPECT_EQ(after.ids, before.ids);
  EXPECT_EQ(after.content, before.content);
  EXPECT_EQ(after.slots, before.slots);
  EXPECT_EQ(servers_[0]->Info().version, 150u);
}

TEST_F(ReplicationTest, APrimaryWithAnOldTermIsRefused) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 3);
  const Endpoint old = primary();
  std::unique_ptr<Pserver> woken = std::move(servers_[0]);  // goes on, as after a pause
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  Serve(*std::move(promoted));
  standby = StandbyOf(primary(), "c");
  AwaitCurrent(*standby);
  standby.reset();
  // The state of term 2 does not follow the primary of term 1, which has the number 0.
  primary_member_ = 0;
  standby = StandbyOf(old, "c");
  ExpectRefused(*standby, "it has term 2, and this server has term 1 [TD4029]");
}

TEST_F(ReplicationTest, AnEmptyPrimaryDoesNotReplaceTheStateOfItsStandby) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 3);
  AwaitCurrent(*standby);
  standby.reset();
  LosePrimary("a");
  StartPrimary("a");  // a mistake: the standby should be promoted
  standby = StandbyOf(primary(), "b");
  ExpectRefused(*standby, "has the state of another history than this primary");
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  EXPECT_EQ((*promoted)->Info().version, 3u);
}

TEST_F(ReplicationTest, ARestoredCheckpointReachesTheStandby) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 3);
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  const Model saved = model;
  Train(model, 3, 5);
  {
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}}).ok());
    EXPECT_EQ(*client->Restore(), 3u);
  }
  model = saved;
  Train(model, 3, 6);
  AwaitCurrent(*standby);
  EXPECT_EQ(standby->progress().position.term.number, 2u);
  LosePrimary("a");
  auto promoted = standby->Promote(3);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  EXPECT_EQ((*promoted)->Info().version, 6u);
}

TEST_F(ReplicationTest, ARestoreThatSucceededSurvivesTheLossOfThePrimary) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 3);
  ASSERT_TRUE(servers_[0]->SaveCheckpoint().ok());
  Train(model, 3, 5);
  AwaitCurrent(*standby);
  {
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}}).ok());
    ASSERT_EQ(*client->Restore(), 3u);
  }
  LosePrimary("a");
  auto promoted = standby->Promote(3);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  EXPECT_EQ((*promoted)->Info().version, 3u) << "the standby returned to the later state";
}

TEST_F(ReplicationTest, AFailedRestoreDoesNotStopReplication) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 3);
  for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/a/shard-0")) {
    if (entry.path().filename().string().starts_with("values-")) {
      std::filesystem::remove(entry.path());
    }
  }
  {
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure(model.variables, ps::PsMode::kSync, {"adam", {}}).ok());
    EXPECT_FALSE(client->Restore().ok());
  }
  Train(model, 3, 6);
  AwaitCurrent(*standby);
  EXPECT_EQ(standby->progress().position.term.number, 1u);
}

// A trainer that pushes one update after the other until Stop, through all promotions.
class LedgerTrainer {
 public:
  LedgerTrainer(const std::string& server, int trainer) : push_{.trainer = trainer} {
    ps::PsOptions options = LedgerOptions(trainer);
    options.transport = ps::PsTransport::kGrpc;
    options.partition.min_block_size = kLedgerSlots;
    auto client = ps::PsClient::Connect({server}, options);
    CHECK(client.ok()) << client.status();
    client_ = *std::move(client);
    thread_ = std::thread([this] { status_ = Train(); });
  }
  // Returns the number of acknowledged pushes.
  int64_t Stop() {
    stop_ = true;
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_;
    return push_.number;
  }
  int64_t pushes() const { return acknowledged_; }
  ps::PsClient& client() { return *client_; }

 private:
  Status Train() {
    TD_RETURN_IF_ERROR(ConfigureLedger(*client_).status());
    std::vector<float> slots(kLedgerSlots, 0.0f);
    const ps::PsTensor tensor = {"slots", slots.data(), kLedgerSlots};
    TD_RETURN_IF_ERROR(client_->InitOrFetch({&tensor, 1}).status());
    for (; !stop_; ++push_.number) {
      std::vector<float> gradient(kLedgerSlots, 0.0f);
      gradient[static_cast<size_t>(push_.Slot())] = -1.0f;
      const int64_t row = push_.Row();
      const float one = -1.0f;
      Answer<Status> done;
      client_->Push(static_cast<uint64_t>(push_.number), 1.0f,
                    {{"slots", gradient.data(), kLedgerSlots}}, done.Callback(),
                    {{"rows", {&row, 1}, &one}});
      TD_RETURN_IF_ERROR(done.Get());
      ++acknowledged_;
    }
    return OkStatus();
  }

  LedgerPush push_;
  std::unique_ptr<ps::PsClient> client_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> acknowledged_ = 0;
  Status status_;
  std::thread thread_;
};

// In each round, the primary or its standby ends at a random moment and loses its directory, while
// two trainers push. TANDEM_REPLICATION_ROUNDS sets the number of rounds.
TEST_F(ReplicationTest, TheLedgerIsCompleteAfterManyLostDirectories) {
  const char* const given = std::getenv("TANDEM_REPLICATION_ROUNDS");
  const int rounds = given == nullptr ? 20 : std::atoi(given);
  const auto seed = static_cast<uint64_t>(SteadyNow().time_since_epoch().count());
  SCOPED_TRACE("seed " + std::to_string(seed));
  job_ = "ledger";
  log_bytes_max_ = 20'000;
  int name = 0;
  StartPrimary(std::to_string(name));
  listen_ = primary();
  std::string of_primary = std::to_string(name), of_standby = std::to_string(++name);
  std::unique_ptr<Standby> standby = StandbyOf(listen_, of_standby);
  LedgerTrainer trainers[] = {{endpoints_[0], 0}, {endpoints_[0], 1}};
  uint64_t term = 1;
  int promotions = 0;
  for (int round = 0; round < rounds; ++round) {
    AwaitCurrent(*standby);
    if (HasFatalFailure()) break;
    const auto pause = UniformAt(seed, 2 * static_cast<uint64_t>(round)) * 40;
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(pause));
    if (UniformAt(seed, 2 * static_cast<uint64_t>(round) + 1) < 0.3) {
      standby.reset();
      std::filesystem::remove_all(dir_ + "/" + of_standby);
    } else {
      LosePrimary(of_primary);
      auto promoted = standby->Promote(++term);
      ASSERT_TRUE(promoted.ok()) << promoted.status();
      Serve(*std::move(promoted));
      of_primary = of_standby;
      ++promotions;
    }
    of_standby = std::to_string(++name);
    standby = StandbyOf(listen_, of_standby);
  }
  const int64_t pushes[] = {trainers[0].Stop(), trainers[1].Stop()};
  std::printf("%d rounds, %d promotions, %lld and %lld pushes\n", rounds, promotions,
              static_cast<long long>(pushes[0]), static_cast<long long>(pushes[1]));
  EXPECT_GT(promotions, 0);
  std::vector<float> expected(kLedgerSlots, 0.0f), slots(kLedgerSlots);
  std::set<uint64_t> rows;
  for (const int t : {0, 1}) {
    EXPECT_GT(pushes[t], 0);
    for (int64_t number = 0; number < pushes[t]; ++number) {
      const LedgerPush push{t, number};
      ++expected[static_cast<size_t>(push.Slot())];
      rows.insert(static_cast<uint64_t>(push.Row()));
    }
  }
  const ps::PsTensor tensor = {"slots", slots.data(), kLedgerSlots};
  ASSERT_TRUE(PullAndWait(trainers[0].client(), 0, {tensor}).ok());
  EXPECT_EQ(slots, expected);
  const auto table = trainers[0].client().PullTable("rows", /*slots=*/false);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(std::set<uint64_t>(table->ids.begin(), table->ids.end()), rows);
  EXPECT_EQ(table->content, std::vector<float>(rows.size(), 1.0f));
}

TEST_F(ReplicationTest, WrongRequestsAreRefused) {
  const auto message = [](const auto& result) { return std::string(result.status().message()); };
  PserverOptions options = OptionsOf("a");
  options.durability = Durability::kReplayable;
  EXPECT_THAT(message(Pserver::Start(options, metrics_)),
              testing::HasSubstr("standbys need durability logged"));
  StartPrimary("a");
  EXPECT_THAT(message(Standby::Start(OptionsOf("b", 0), metrics_)),
              testing::HasSubstr("needs the number of standbys"));
  options = OptionsOf("b");
  options.member = 2;
  EXPECT_THAT(message(Standby::Start(options, metrics_)),
              testing::HasSubstr("a server with 1 standbys has no member 2 [TD4028]"));
  const std::unique_ptr<Standby> second = StandbyOf(primary(), "b", 0);
  ExpectRefused(*second, "cannot have a standby with the number 0 [TD4028]");
  EXPECT_THAT(message(second->Promote(5)), testing::HasSubstr("it has no state"));
}

// A standby has lost its directory and fetched the checkpoint of its primary, but not yet the
// entries after it, some of which it had acknowledged before.
TEST_F(ReplicationTest, AStandbyThatHasNotReachedItsPrimaryIsNotPromoted) {
  Model model;
  StartPrimary("a");
  std::unique_ptr<Standby> standby = StandbyOf(primary(), "b");
  Train(model, 0, 3);
  AwaitCurrent(*standby);
  standby.reset();
  servers_.clear();
  {
    const auto from = *OpenRocksdbStorage(dir_ + "/a/shard-0", nullptr);
    std::filesystem::create_directories(dir_ + "/c");
    const auto to = *OpenRocksdbStorage(dir_ + "/c/shard-0", nullptr);
    const auto opened = from->files()->OpenCheckpoint();
    ASSERT_TRUE(opened.ok()) << opened.status();
    std::string values(opened->bytes, '\0');
    ASSERT_EQ(pread(opened->values.get(), values.data(), values.size(), 0),
              static_cast<ssize_t>(values.size()));
    const std::string path = to->files()->NewValuesFile();
    std::ofstream(path) << values;
    ASSERT_TRUE(*to->files()->Complete());
    const Status installed =
        to->files()->InstallCheckpoint(opened->record, path, *from->files()->Term());
    ASSERT_TRUE(installed.ok()) << installed;
    EXPECT_FALSE(*to->files()->Complete());
  }
  listen_ = {.path = dir_ + "/socket"};
  standby = StandbyOf(listen_, "c");  // its primary is away
  EXPECT_TRUE(standby->progress().position.has_state);
  EXPECT_THAT(std::string(standby->Promote(2).status().message()),
              testing::HasSubstr("has not yet received the entries after it"));
  standby.reset();
  StartPrimary("a");
  standby = StandbyOf(listen_, "c");
  AwaitCurrent(*standby);
  servers_.clear();
  auto promoted = standby->Promote(2);
  ASSERT_TRUE(promoted.ok()) << promoted.status();
  EXPECT_EQ((*promoted)->Info().version, 3u);
}

TEST_F(ReplicationTest, AMemberBeginsOnlyWithoutState) {
  Model model;
  listen_ = {.path = dir_ + "/socket"};
  std::unique_ptr<Standby> first = StandbyOf(listen_, "a", 0);
  auto begun = first->Begin();
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_FALSE(first->Begin().ok());
  Serve(*std::move(begun));
  std::unique_ptr<Standby> second = StandbyOf(listen_, "b");
  Train(model, 0, 3);
  AwaitCurrent(*second);
  EXPECT_EQ(servers_[0]->term().number, 1u);
  EXPECT_THAT(std::string(second->Begin().status().message()),
              testing::HasSubstr("has a state of term 1 and cannot begin a new history [TD4029]"));
}

}  // namespace
}  // namespace tandem::pserver
