// Tests exactly-once pushes. Every push adds 1 to one slot of a vector on two pservers (SGD,
// learning rate 1). Sums of small integers are exact in any order, so the value of a slot is the
// number of applied updates. The test often kills servers with SIGKILL and restarts them. At the
// end, every slot must equal the number of acknowledged pushes. The third push to a row of the
// growing table creates the row, so the value of a row must be the number of acknowledged pushes
// minus two.
//   TANDEM_LEDGER_KILLS=N kills (20) TANDEM_LEDGER_SEED=N of their times (1)
#include <signal.h>

#include <atomic>
#include <cmath>
#include <future>
#include <random>
#include <thread>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

constexpr int kServers = 2, kTrainers = 2, kSlots = 64, kRows = 40;
constexpr int64_t kHeight = int64_t{1} << 60;

int64_t RowId(int row) { return row * (kHeight / kRows) + 5; }

class LedgerTest : public JobTest {
 protected:
  struct Sum {
    int64_t lost = 0, doubled = 0, pushes = 0;
    int64_t by_lane = 0;  // number of pushes through shared memory to one of the servers
    // rows: number of rows that must exist, minus number of existing rows. waiting: the same
    // difference for rows that have gradients but are not admitted yet.
    int64_t rows = 0, waiting = 0;
    void Count(int64_t expected, int64_t applied) {
      lost += std::max<int64_t>(0, expected - applied);
      doubled += std::max<int64_t>(0, applied - expected);
    }
  };

  void SetUp() override {
    JobTest::SetUp();
    for (int i = 0; i < kServers; ++i) {
      endpoints_.push_back("127.0.0.1:" + std::to_string(FreePort()));
    }
    servers_.resize(kServers);
  }
  void TearDown() override {
    // Ends the servers, because they may write into the directory that TearDown removes next.
    servers_.clear();
    JobTest::TearDown();
  }
  // Starts or restarts server i. `bug` names a mutant (tests/sim/mutants); "": the real server with
  // --wal_sync=SYNC and the durability of the test.
  void StartServer(int i, const std::string& bug, const std::string& sync) {
    const std::string data = Path("data-" + std::to_string(i) + "-" + std::to_string(round_));
    const std::string index = std::to_string(i), listen = endpoints_[i];
    servers_[i].reset();
    servers_[i] = bug.empty()
                      ? std::make_unique<ChildProcess>(
                            "tandem-pserver",
                            std::vector<std::string>{
                                "--listen=" + listen, "--index=" + index, "--job=ledger",
                                "--data_dir=" + data, "--durability=" + durability_,
                                "--wal_sync=" + sync, "--checkpoint_every_steps=" + checkpoints_},
                            std::map<std::string, std::string>{}, Path("server-" + index))
                      : std::make_unique<ChildProcess>(
                            "broken-pserver-" + bug, std::vector<std::string>{listen, index, data},
                            std::map<std::string, std::string>{}, Path("server-" + index));
  }
  std::unique_ptr<ps::PsClient> Client(int trainer) {
    ps::PsOptions options;
    options.job = "ledger";
    options.trainer = trainer;
    options.trainers = kTrainers;
    options.patience.retries = 100000;
    // The trainers use different transports: trainer 0 uses shared memory, all other trainers use
    // gRPC.
    options.transport = trainer == 0 ? ps::PsTransport::kShm : ps::PsTransport::kGrpc;
    options.partition.min_block_size = kSlots / kServers;
    auto client = ps::PsClient::Connect(endpoints_, options);
    CHECK(client.ok()) << client.status();
    const ps::PsTable rows = {
        .variable = "rows", .height = kHeight, .dim = 1, .rules = "admit_count=3"};
    const auto state = (*client)->Configure({{"slots", Shape{kSlots}}}, mode_, {}, {rows});
    CHECK(state.ok()) << state.status();
    return *std::move(client);
  }
  Sum Run(int kills, const std::string& bug, const std::string& sync);
  // Kills real servers and expects that no update is lost or applied twice.
  Sum ExpectExactlyOnce();
  // Returns whether the ledger shows that a server with `bug` applies updates twice. The ledger
  // shows this only after a kill between an update and its acknowledgement, which happens by
  // chance. Therefore the function repeats the run up to 20 times.
  bool DoublesWith(const std::string& bug) {
    for (round_ = 0; round_ < 20 && !HasFailure(); ++round_) {
      if (Run(15, bug, "").doubled > 0) return true;
    }
    return false;
  }

  // Number of the run in DoublesWith. The number selects the data directory and the random seed.
  int round_ = 0;
  ps::PsMode mode_ = ps::PsMode::kASync;
  std::string durability_ = "logged", checkpoints_ = "0";
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
};

Status PushOne(ps::PsClient& client, uint64_t step, int slot, int row) {
  std::vector<float> gradient(kSlots, 0.0f);
  gradient[static_cast<size_t>(slot)] = -1.0f;
  const int64_t id = RowId(row);
  const float one = -1.0f;
  std::promise<Status> done;
  client.Push(step, 1.0f, {{"slots", gradient.data(), kSlots}},
              [&done](Status status) { done.set_value(std::move(status)); },
              {{"rows", {&id, 1}, &one}});
  return done.get_future().get();
}

Status PullRows(ps::PsClient& client, std::vector<float>* values) {
  ps::PsRows rows{.variable = "rows"};
  for (int row = 0; row < kRows; ++row) {
    rows.ids.push_back(RowId(row));
    rows.to.push_back(values->data() + row);
  }
  std::promise<Status> done;
  client.PullRows({}, {rows}, [&done](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
  return done.get_future().get();
}

StatusOr<uint64_t> PullAll(ps::PsClient& client, uint64_t version, std::vector<float>* values) {
  std::promise<StatusOr<uint64_t>> done;
  client.Pull(version, {{"slots", values->data(), kSlots}},
              [&done](StatusOr<uint64_t> v) { done.set_value(std::move(v)); });
  return done.get_future().get();
}

LedgerTest::Sum LedgerTest::Run(int kills, const std::string& bug, const std::string& sync) {
  for (int i = 0; i < kServers; ++i) StartServer(i, bug, sync);
  std::vector<std::unique_ptr<ps::PsClient>> clients;
  for (int t = 0; t < kTrainers; ++t) clients.push_back(Client(t));
  std::vector<float> zeros(kSlots, 0.0f);
  const ps::PsTensor tensor = {"slots", zeros.data(), kSlots};
  for (auto& client : clients) EXPECT_TRUE(client->InitOrFetch({&tensor, 1}).ok());

  std::atomic<bool> stop = false;
  std::atomic<int64_t> progress = 0;
  std::vector<std::vector<int64_t>> acknowledged(kTrainers, std::vector<int64_t>(kSlots, 0));
  std::vector<std::vector<int64_t>> of_rows(kTrainers, std::vector<int64_t>(kRows, 0));
  std::vector<std::thread> trainers;
  for (int t = 0; t < kTrainers; ++t) {
    trainers.emplace_back([&, t] {
      std::vector<float> values(kSlots);
      for (uint64_t step = 0; !stop; ++step) {
        const int slot = static_cast<int>((step * 7 + static_cast<uint64_t>(t) * 13) % kSlots);
        const int row = static_cast<int>((step * 31 + static_cast<uint64_t>(t) * 17) % kRows);
        const Status status = PushOne(*clients[t], step, slot, row);
        EXPECT_TRUE(status.ok()) << status;
        if (!status.ok()) return;
        ++acknowledged[t][slot];
        ++of_rows[t][row];
        ++progress;
      }
    });
  }
  std::mt19937 random(static_cast<uint32_t>(FromEnvironment("TANDEM_LEDGER_SEED", 1) + round_));
  for (int kill = 0; kill < kills; ++kill) {
    // Usually the test waits for some pushes before the next kill. In a quarter of the cases the
    // test kills at once, while a server may still recover.
    const int64_t enough = progress + (random() % 4 == 0 ? 0 : 20);
    EXPECT_TRUE(WaitUntil([&] { return progress >= enough || HasFailure(); }, 60));
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    const int victim = static_cast<int>(random() % kServers);
    servers_[victim]->Signal(SIGKILL);
    servers_[victim]->Wait(20);
    StartServer(victim, bug, sync);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  stop = true;
  for (auto& trainer : trainers) trainer.join();

  Sum sum;
  std::vector<float> values(kSlots);
  const auto version = PullAll(*clients[0], 0, &values);
  EXPECT_TRUE(version.ok()) << version.status();
  for (int s = 0; s < kSlots; ++s) {
    const auto applied = static_cast<int64_t>(values[s]);
    int64_t expected = 0;
    for (int t = 0; t < kTrainers; ++t) expected += acknowledged[t][s];
    sum.pushes += expected;
    sum.Count(expected, applied);
  }
  std::vector<float> rows(kRows, NAN);
  const Status pulled = PullRows(*clients[0], &rows);
  EXPECT_TRUE(pulled.ok()) << pulled;
  for (int r = 0; r < kRows; ++r) {
    int64_t expected = -2;
    for (int t = 0; t < kTrainers; ++t) expected += of_rows[t][r];
    sum.Count(std::max<int64_t>(0, expected), static_cast<int64_t>(rows[r]));
    sum.rows += expected > 0;
    sum.waiting += expected == 0 || expected == -1;
  }
  const auto info = clients[0]->ServerInfo();
  EXPECT_TRUE(info.ok()) << info.status();
  sum.by_lane = static_cast<int64_t>(clients[0]->shm_calls());
  for (int i = 0; info.ok() && i < kServers; ++i) {
    sum.rows -= static_cast<int64_t>((*info)[i].rows);
    sum.waiting -= static_cast<int64_t>((*info)[i].waiting);
  }
  return sum;
}

LedgerTest::Sum LedgerTest::ExpectExactlyOnce() {
  const int kills = FromEnvironment("TANDEM_LEDGER_KILLS", 20);
  const Sum sum = Run(kills, "", "none");
  std::printf(
      "ledger, %s: %d kills, %lld pushes (%lld messages by lanes), lost %lld, doubled %lld\n",
      durability_.c_str(), kills, static_cast<long long>(sum.pushes),
      static_cast<long long>(sum.by_lane), static_cast<long long>(sum.lost),
      static_cast<long long>(sum.doubled));
  EXPECT_GT(sum.pushes, 100);
  EXPECT_EQ(sum.lost, 0);
  EXPECT_EQ(sum.doubled, 0);
  EXPECT_EQ(sum.rows, 0);
  EXPECT_EQ(sum.waiting, 0);
  return sum;
}

TEST_F(LedgerTest, NothingIsLostAndNothingIsDoubled) {
  EXPECT_GT(ExpectExactlyOnce().by_lane, 100);
}

// The servers write checkpoints and log only the order of pushes. The trainers keep their pushes
// and retransmit them after a restart of a server.
TEST_F(LedgerTest, NothingIsLostAndNothingIsDoubledWhenTrainersKeepTheirPushes) {
  durability_ = "replayable";
  checkpoints_ = "500";
  ExpectExactlyOnce();
}

TEST_F(LedgerTest, AServerThatNeverAsksForWhatTrainersKeepIsCaught) {
  for (round_ = 0; round_ < 5 && !HasFailure(); ++round_) {
    if (Run(3, "never_asks", "").lost > 0) return;
  }
  ADD_FAILURE() << "nothing was found to be lost";
}

// A server without deduplication applies some pushes twice, and the ledger must show this.
TEST_F(LedgerTest, AServerWithoutDedupIsCaught) { EXPECT_TRUE(DoublesWith("no_dedup")); }

TEST_F(LedgerTest, AServerThatForgetsItsMarksIsCaught) {
  EXPECT_TRUE(DoublesWith("marks_not_kept"));
}

}  // namespace
}  // namespace tandem
