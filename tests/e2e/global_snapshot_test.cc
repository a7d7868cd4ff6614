// Tests global snapshots of all pservers while trainers push in a_sync mode: `tandem save
// --snapshot` and `tandem restore --snapshot`. Every push adds 1 to a slot of its trainer on each
// server. Thus in a consistent state, a trainer's slots on all servers have the same value.
#include <signal.h>

#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/check.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

constexpr int kServers = 3, kTrainers = 2;

class CutTest : public JobTest {
 protected:
  void StartServer(int i) {
    const std::string index = std::to_string(i);
    servers_[i].reset();
    servers_[i] = std::make_unique<ChildProcess>(
        "tandem-pserver",
        std::vector<std::string>{"--listen=" + endpoints_[i], "--index=" + index, "--job=cut",
                                 "--data_dir=" + Path("data-" + index), "--durability=logged",
                                 "--wal_sync=none", "--snapshot_keep=" + keep_},
        std::map<std::string, std::string>{}, Path("server-" + index));
    ASSERT_TRUE(servers_[i]->WaitForText("listening on", 60)) << servers_[i]->Output();
  }
  void StartServers() {
    servers_.resize(kServers);
    for (int i = 0; i < kServers; ++i) {
      endpoints_.push_back("127.0.0.1:" + std::to_string(FreePort()));
      StartServer(i);
    }
  }
  std::unique_ptr<ps::PsClient> Client(int trainer) {
    ps::PsOptions options;
    options.job = "cut";
    options.trainer = trainer;
    options.trainers = kTrainers;
    options.patience.retries = 100000;
    options.transport = trainer == 0 ? ps::PsTransport::kAuto : ps::PsTransport::kGrpc;
    options.split_messages = trainer == 0;
    auto client = ps::PsClient::Connect(endpoints_, options);
    CHECK(client.ok()) << client.status();
    std::vector<ps::PsVariable> variables;
    for (const std::string& name : names_) variables.push_back({name, Shape{kTrainers}});
    const auto state = (*client)->Configure(variables, mode_, {});
    CHECK(state.ok()) << state.status();
    return *std::move(client);
  }
  static Status Await(const std::function<void(ps::PsClient::Done)>& begin) {
    std::promise<Status> done;
    begin([&done](Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  // Waits until all trainers have pushed the steps before `step`.
  static bool AwaitStep(ps::PsClient& client, uint64_t step, const std::vector<ps::PsTensor>& to) {
    const Status status = Await([&](const auto& done) {
      client.Pull({.version = step}, to,
                  [done](const StatusOr<uint64_t>& version) { done(version.status()); });
    });
    EXPECT_TRUE(status.ok()) << status;
    return status.ok();
  }
  void Train(int trainer) {
    const auto client = Client(trainer);
    std::vector<float> values(names_.size() * kTrainers, 0.0f), gradient(kTrainers, 0.0f);
    gradient[static_cast<size_t>(trainer)] = -1.0f;
    std::vector<ps::PsTensor> first;
    std::vector<ps::PsConstTensor> gradients;
    for (size_t i = 0; i < names_.size(); ++i) {
      first.push_back({names_[i], values.data() + i * kTrainers, kTrainers});
      gradients.push_back({names_[i], gradient.data(), kTrainers});
    }
    const auto version = client->InitOrFetch(first);
    EXPECT_TRUE(version.ok()) << version.status();
    for (uint64_t step = 0; !stop_ && version.ok(); ++step) {
      const Status status =
          Await([&](const auto& done) { client->Push(step, 1.0f, gradients, done); });
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      ++acknowledged_[static_cast<size_t>(trainer)];
      if (mode_ == ps::PsMode::kSync && !AwaitStep(*client, step + 1, first)) break;
    }
    EXPECT_TRUE(client->Complete().ok());
  }
  void GoOn() {
    for (auto& pushes : acknowledged_) {
      const int64_t enough = pushes + 20;
      EXPECT_TRUE(WaitUntil([&] { return pushes >= enough || HasFailure(); }, 60));
    }
  }
  void Begin() {
    StartServers();
    for (int t = 0; t < kTrainers; ++t) trainers_.emplace_back([this, t] { Train(t); });
    GoOn();
  }
  void End() {
    stop_ = true;
    for (std::thread& t : trainers_) t.join();
  }
  std::unique_ptr<ChildProcess> Tandem(std::vector<std::string> args) {
    args.push_back("--pservers=" + endpoints_[0] + "," + endpoints_[1] + "," + endpoints_[2]);
    args.push_back("--job=cut");
    return std::make_unique<ChildProcess>("tandem", args, std::map<std::string, std::string>{},
                                          Path("tandem-" + std::to_string(commands_++)));
  }
  // Runs a command again until it succeeds, up to 20 times, because on a busy machine a global
  // snapshot may be abandoned. Returns the JSON that the command prints.
  nlohmann::json Answer(const std::vector<std::string>& args) {
    auto command = Tandem(args);
    for (int again = 0; command->Wait(120) != 0 && again < 20; ++again) command = Tandem(args);
    EXPECT_EQ(command->Wait(120), 0) << command->Output();
    const auto answer = nlohmann::json::parse(command->Output(), nullptr, false);
    EXPECT_TRUE(answer.is_object()) << command->Output();
    return answer;
  }
  // Connects as a new client and reads the slot of each trainer on every server. All slots of
  // trainer t must have the same value, at least least[t].
  void ExpectOneState(const std::vector<int64_t>& least) {
    const auto client = Client(0);
    std::vector<float> values(names_.size() * kTrainers, -1.0f);
    std::vector<ps::PsTensor> all;
    for (size_t i = 0; i < names_.size(); ++i) {
      all.push_back({names_[i], values.data() + i * kTrainers, kTrainers});
    }
    ASSERT_TRUE(client->InitOrFetch(all).ok());
    for (size_t t = 0; t < kTrainers; ++t) {
      for (size_t i = 0; i < names_.size(); ++i) {
        EXPECT_EQ(values[i * kTrainers + t], values[t]) << names_[i] << " of trainer " << t;
      }
      EXPECT_GE(values[t], static_cast<float>(least[t]));
      EXPECT_LE(values[t], static_cast<float>(acknowledged_[t]));
    }
  }
  std::vector<int64_t> Acknowledged() const { return {acknowledged_.begin(), acknowledged_.end()}; }

  const std::vector<std::string> names_ = {"a", "b", "c", "d", "e"};
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<std::thread> trainers_;
  std::vector<std::atomic<int64_t>> acknowledged_ = std::vector<std::atomic<int64_t>>(kTrainers);
  std::atomic<bool> stop_ = false;
  int commands_ = 0;
  std::string keep_ = "last=2";
  ps::PsMode mode_ = ps::PsMode::kASync;
};

TEST_F(CutTest, AllServersGoBackToOneState) {
  Begin();
  double held = 0;
  uint64_t number = 0;
  std::vector<int64_t> before;
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    before = Acknowledged();
    const auto taken = Answer({"save", "--snapshot", "-o", "json"});
    ASSERT_EQ(taken["pservers"].size(), static_cast<size_t>(kServers));
    EXPECT_GT(taken["snapshot"].get<uint64_t>(), number);
    number = taken["snapshot"].get<uint64_t>();
    held = std::max(held, taken["held_seconds_max"].get<double>());
    GoOn();
  }
  std::printf("pushes waited for %.1f ms at most\n", held * 1e3);
  EXPECT_GT(held, 0);
  // Kills and restarts a server. The server must recover the state that it had before.
  servers_[1]->Signal(SIGKILL);
  servers_[1]->Wait(20);
  StartServer(1);
  GoOn();
  End();
  const auto unknown = Tandem({"restore", "--snapshot=" + std::to_string(number + 1)});
  EXPECT_NE(unknown->Wait(60), 0);
  EXPECT_THAT(unknown->Output(), HasSubstr("snapshot " + std::to_string(number + 1)));
  EXPECT_THAT(unknown->Output(), HasSubstr(std::to_string(number - 1)));
  const auto back = Answer({"restore", "--snapshot", "-o", "json"});
  EXPECT_EQ(back["snapshot"].get<uint64_t>(), number);
  ExpectOneState(before);
  // The snapshot before the newest one is still available.
  const auto list = Tandem({"restore", "--list"});
  EXPECT_EQ(list->Wait(60), 0) << list->Output();
  EXPECT_THAT(list->Output(), HasSubstr("version"));
  const auto older = Answer({"restore", "--snapshot=" + std::to_string(number - 1), "-o", "json"});
  EXPECT_EQ(older["snapshot"].get<uint64_t>(), number - 1);
}

TEST_F(CutTest, ServersAndCommandMayBeKilledMeanwhile) {
  Begin();
  Answer({"save", "--snapshot", "-o", "json"});
  const std::vector<int64_t> least(kTrainers, 1);
  for (int round = 0; round < 6 && !HasFailure(); ++round) {
    const auto command = Tandem({"save", "--snapshot"});
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * round));
    if (round % 2 == 0) command->Signal(SIGKILL);
    const int victim = round % kServers;
    servers_[victim]->Signal(SIGKILL);
    servers_[victim]->Wait(20);
    StartServer(victim);
    command->Wait(120);
    GoOn();
  }
  End();
  const auto back = Tandem({"restore", "--snapshot"});
  EXPECT_EQ(back->Wait(120), 0) << back->Output();
  ExpectOneState(least);
}

TEST_F(CutTest, KeptSnapshotsAreListedAndRestoredByNumberAndTime) {
  keep_ = "last=3,hourly=2";
  Begin();
  std::vector<std::vector<int64_t>> before;
  for (int n = 0; n < 5 && !HasFailure(); ++n) {
    before.push_back(Acknowledged());
    Answer({"save", "--snapshot", "-o", "json"});
    GoOn();
  }
  End();
  const auto list = Tandem({"snapshots", "-o", "json"});
  ASSERT_EQ(list->Wait(60), 0) << list->Output();
  const nlohmann::json found = nlohmann::json::parse(list->Output());
  // The test may begin in one hour and end in the next.
  ASSERT_GE(found.size(), 3u) << list->Output();
  ASSERT_LE(found.size(), 4u) << list->Output();
  const size_t first = found.size() - 3;
  std::map<std::string, uint64_t> newest;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i]["whole"].get<bool>());
    EXPECT_GT(found[i]["bytes"].get<uint64_t>(), 0u);
    newest[found[i]["time"].get<std::string>()] = found[i]["snapshot"].get<uint64_t>();
  }
  const auto oldest = found[first]["snapshot"].get<uint64_t>();
  const auto back = Answer({"restore", "--snapshot=" + std::to_string(oldest), "-o", "json"});
  EXPECT_EQ(back["snapshot"].get<uint64_t>(), oldest);
  ExpectOneState(before[2]);
  // The later ones are abandoned, so the newest is the restored one.
  const auto after = Tandem({"snapshots", "-o", "json"});
  ASSERT_EQ(after->Wait(60), 0) << after->Output();
  for (const auto& snapshot : nlohmann::json::parse(after->Output())) {
    EXPECT_EQ(snapshot["abandoned"].get<bool>(), snapshot["snapshot"].get<uint64_t>() > oldest);
  }
  EXPECT_EQ(Answer({"restore", "--snapshot", "-o", "json"})["snapshot"].get<uint64_t>(), oldest);
  for (const auto& [time, number] : newest) {
    const auto at = Answer({"restore", "--at=" + time, "-o", "json"});
    EXPECT_EQ(at["snapshot"].get<uint64_t>(), number) << time;
  }
  ExpectOneState(before[4]);
  const auto early = Tandem({"restore", "--at=2001-01-01 00:00"});
  EXPECT_NE(early->Wait(60), 0);
  EXPECT_THAT(early->Output(), HasSubstr("was taken after this time [TD4020]"));
  const auto bad = Tandem({"restore", "--at=yesterday"});
  EXPECT_NE(bad->Wait(60), 0);
  EXPECT_THAT(bad->Output(), HasSubstr("expected a time in UTC"));
}

TEST_F(CutTest, InSyncModeASnapshotIsOneStep) {
  mode_ = ps::PsMode::kSync;
  Begin();
  std::vector<uint64_t> versions;
  for (int n = 0; n < 4 && !HasFailure(); ++n) {
    const auto taken = Answer({"save", "--snapshot", "-o", "json"});
    versions.push_back(taken["pservers"][0]["version"].get<uint64_t>());
    for (const auto& server : taken["pservers"]) {
      EXPECT_EQ(server["version"].get<uint64_t>(), versions.back());
    }
    GoOn();
  }
  // In sync mode a step needs both trainers, so both end together.
  Tandem({"save", "--snapshot"})->Wait(60);
  End();
  const auto back = Answer({"restore", "--snapshot", "-o", "json"});
  EXPECT_GE(back["pservers"][0]["version"].get<uint64_t>(), versions.back());
}

TEST_F(CutTest, WhatThereIsNotIsSaid) {
  StartServers();
  const auto none = Tandem({"restore", "--snapshot"});
  EXPECT_NE(none->Wait(60), 0);
  EXPECT_THAT(none->Output(), HasSubstr("no snapshot exists on all 3 servers [TD4020]"));
  const auto early = Tandem({"save", "--snapshot"});
  EXPECT_NE(early->Wait(60), 0);
  EXPECT_THAT(early->Output(), HasSubstr("the parameters of this server are not initialised yet"));
  const auto both = Tandem({"save", "--snapshot", "--mode=delta"});
  EXPECT_NE(both->Wait(60), 0);
  EXPECT_THAT(both->Output(), HasSubstr("--mode has no effect with --snapshot"));
}

}  // namespace
}  // namespace tandem
