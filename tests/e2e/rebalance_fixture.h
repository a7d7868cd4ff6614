// Fixture for tests that move rows, or slices of dense parameters, between the pservers of running
// jobs. A server joins, another server is drained and stopped, and the tests kill servers with
// SIGKILL during the moves. Trainers push all the time.
#pragma once

#include <signal.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "common/base/check.h"
#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "tests/support/process_test_util.h"

namespace tandem {

using testing::HasSubstr;

inline constexpr int kTrainers = 2, kRows = 400, kRowsOfPush = 20;
inline constexpr int64_t kHeight = int64_t{1} << 60;

inline int64_t RowId(int row) { return row * (kHeight / kRows) + 5; }

class RebalanceTest : public JobTest {
 protected:
  void StartServer(int i) {
    while (static_cast<int>(endpoints_.size()) <= i) {
      endpoints_.push_back("127.0.0.1:" + std::to_string(FreePort()));
      servers_.emplace_back();
    }
    const std::string index = std::to_string(i);
    servers_[i].reset();
    servers_[i] = std::make_unique<ChildProcess>(
        "tandem-pserver",
        std::vector<std::string>{"--listen=" + endpoints_[i], "--index=" + index, "--job=rebalance",
                                 "--data_dir=" + Path(folder_ + index),
                                 "--durability=" + durability_, "--wal_sync=none"},
        std::map<std::string, std::string>{}, Path("server-" + index));
    ASSERT_TRUE(servers_[i]->WaitForText("listening on", 60)) << servers_[i]->Output();
  }
  void Kill(int i) {
    servers_[i]->Signal(SIGKILL);
    servers_[i]->Wait(20);
  }
  std::unique_ptr<ps::PsClient> Client(int trainer, ps::PsMode mode = ps::PsMode::kASync,
                                       const ps::PsOptimizer& optimizer = {}) {
    ps::PsOptions options;
    options.job = "rebalance";
    options.trainer = trainer;
    options.trainers = kTrainers;
    options.patience.retries = 100000;
    options.transport = trainer == 0 ? ps::PsTransport::kAuto : ps::PsTransport::kGrpc;
    options.partition.min_block_size = 1000;
    auto client = ps::PsClient::Connect({endpoints_[0], endpoints_[1]}, options);
    CHECK(client.ok()) << client.status();
    std::vector<ps::PsTable> tables = {{.variable = "rows", .height = kHeight, .dim = 1}};
    if (!variables_.empty()) tables.clear();
    const auto state = (*client)->Configure(variables_, mode, optimizer, tables);
    CHECK(state.ok()) << state.status();
    std::vector<std::vector<float>> zeros;
    std::vector<ps::PsTensor> params;
    for (const ps::PsVariable& v : variables_) {
      zeros.emplace_back(static_cast<size_t>(v.shape.numel()), 0.0f);
      params.push_back({v.name, zeros.back().data(), v.shape.numel()});
    }
    const auto version = (*client)->InitOrFetch(params);
    CHECK(version.ok()) << version.status();
    return *std::move(client);
  }
  std::unique_ptr<ChildProcess> Tandem(std::vector<std::string> args) {
    args.push_back("--pservers=" + endpoints_[0] + "," + endpoints_[1]);
    args.push_back("--job=rebalance");
    const std::string out = Path("tandem-" + std::to_string(commands_++));
    return std::make_unique<ChildProcess>("tandem", args, std::map<std::string, std::string>{},
                                          out);
  }
  // Waits for the end of the command, which must print `said`. After that, waits for further pushes
  // of the trainers.
  void Finish(ChildProcess& command, const std::string& said) {
    EXPECT_EQ(command.Wait(120), 0) << command.Output();
    EXPECT_THAT(command.Output(), HasSubstr(said));
    GoOn();
  }
  void GoOn() {
    const int64_t enough = pushes_ + 50;
    EXPECT_TRUE(WaitUntil([&] { return pushes_ >= enough || HasFailure(); }, 60));
  }
  // Returns the number of steps that every trainer must have pushed before a trainer with `done`
  // steps may continue. 0: the trainer need not wait.
  uint64_t StepBound(uint64_t done) const {
    return staleness_ < 0 ? 0 : done - std::min(done, static_cast<uint64_t>(staleness_));
  }
  // Waits for slower trainers. The wait is part of the pull of the step's rows, as in a job with
  // max_staleness.
  Status AwaitOthers(ps::PsClient& client, uint64_t step, const std::vector<int64_t>& ids) const {
    std::vector<float> values(ids.size());
    ps::PsRows rows{.variable = "rows", .ids = ids, .to = {}};
    for (float& value : values) rows.to.push_back(&value);
    std::promise<Status> done;
    client.PullRows({.step = StepBound(step)}, {rows},
                    [&done](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
    return done.get_future().get();
  }
  virtual void Train(int trainer) {
    const auto client = Client(trainer);
    for (uint64_t step = 0; !stop_; ++step) {
      std::vector<int64_t> ids;
      std::vector<int> rows;
      for (int i = 0; i < kRowsOfPush; ++i) {
        rows.push_back(static_cast<int>(step * 7 + static_cast<uint64_t>(i)) % kRows);
      }
      std::sort(rows.begin(), rows.end());
      for (const int row : rows) ids.push_back(RowId(row));
      const std::vector<float> ones(ids.size(), -1.0f);
      const Status there = staleness_ < 0 ? OkStatus() : AwaitOthers(*client, step, ids);
      EXPECT_TRUE(there.ok()) << there;
      if (!there.ok()) return;
      std::promise<Status> done;
      client->Push(step, 1.0f, {}, [&done](Status status) { done.set_value(std::move(status)); },
                   {{"rows", ids, ones.data()}});
      const Status status = done.get_future().get();
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      for (const int row : rows) ++acknowledged_[static_cast<size_t>(row)];
      ++pushes_;
    }
    EXPECT_TRUE(client->Complete().ok());
  }
  void Begin() {
    StartServer(0);
    StartServer(1);
    for (int t = 0; t < kTrainers; ++t) trainers_.emplace_back([this, t] { Train(t); });
    GoOn();
  }
  void End() {
    stop_ = true;
    for (std::thread& t : trainers_) t.join();
  }
  // Drains pserver 1 and stops it. After that, starts it again for later clients, and ends the
  // trainers.
  void DrainAndStop() {
    Finish(*Tandem({"drain", "--pserver=1"}), "pserver 1 is empty and receives no more rows");
    servers_[1]->Signal(SIGTERM);
    EXPECT_EQ(servers_[1]->Wait(20), 0);
    GoOn();
    StartServer(1);  // because clients that connect later need all servers
    End();
  }
  // Moves rows to pserver 2 and back in several rounds. Each round kills and restarts a server. The
  // time from the start of the move to the kill grows by `later` per round. Round 3 also kills the
  // command.
  void MoveAndKill(Duration later) {
    Begin();
    StartServer(2);
    for (int round = 0; round < 6 && !HasFailure(); ++round) {
      const bool away = round % 2 == 1;
      const auto command =
          Tandem(away ? std::vector<std::string>{"drain", "--pserver=2"}
                      : std::vector<std::string>{"rebalance", "--add=" + endpoints_[2]});
      std::this_thread::sleep_for(std::chrono::milliseconds(30) + round * later);
      const int victim = round % 3;
      Kill(victim);
      if (round == 3) command->Signal(SIGKILL);
      StartServer(victim);
      command->Wait(120);
      GoOn();
    }
    Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}), "pserver 0 (");
    End();
  }
  // Reads all rows as a new trainer. Expects that the value of each row equals the number of
  // acknowledged pushes to it.
  void ExpectLedger() {
    const auto client = Client(0);
    std::vector<float> values(kRows, 0.0f);
    ps::PsRows rows{.variable = "rows", .ids = {}, .to = {}};
    for (int row = 0; row < kRows; ++row) {
      rows.ids.push_back(RowId(row));
      rows.to.push_back(values.data() + row);
    }
    std::promise<Status> done;
    client->PullRows({}, {rows},
                     [&done](const StatusOr<uint64_t>& v) { done.set_value(v.status()); });
    const Status pulled = done.get_future().get();
    ASSERT_TRUE(pulled.ok()) << pulled;
    int64_t lost = 0, doubled = 0;
    for (int row = 0; row < kRows; ++row) {
      const int64_t expected = acknowledged_[static_cast<size_t>(row)];
      const auto applied = static_cast<int64_t>(values[static_cast<size_t>(row)]);
      lost += std::max<int64_t>(0, expected - applied);
      doubled += std::max<int64_t>(0, applied - expected);
    }
    std::printf("rebalance: %lld pushes of %d rows, lost %lld, doubled %lld\n",
                static_cast<long long>(pushes_), kRowsOfPush, static_cast<long long>(lost),
                static_cast<long long>(doubled));
    EXPECT_EQ(lost, 0);
    EXPECT_EQ(doubled, 0);
    // A pull of the whole table returns each bucket once, whichever server has it.
    const auto table = client->PullTable("rows", /*slots=*/true);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->ids.size(), static_cast<size_t>(kRows));
  }

  std::string durability_ = "logged", folder_ = "data-";
  int staleness_ = -1;  // max_staleness of asynchronous jobs; -1: no limit
  // Dense variables of the job; empty: the job has only the table "rows".
  std::vector<ps::PsVariable> variables_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<ChildProcess>> servers_;
  std::vector<std::thread> trainers_;
  std::vector<std::atomic<int64_t>> acknowledged_ = std::vector<std::atomic<int64_t>>(kRows);
  std::atomic<int64_t> pushes_ = 0;
  std::atomic<bool> stop_ = false;
  int commands_ = 0;
};

// Trains a sync job until step `last_`, while rows move.
class StepRebalanceTest : public RebalanceTest {
 protected:
  std::unique_ptr<ps::PsClient> StepClient(int trainer) {
    return Client(trainer, ps::PsMode::kSync, {"adam", {{"lazy_mode", true}}});
  }
  // Gradients depend on the rows, so a step with wrong rows would change the result.
  static Status MakeStep(ps::PsClient& client, int trainer, uint64_t step) {
    ps::PsRows rows{.variable = "rows", .ids = {}, .to = {}};
    std::vector<float> values(kRowsOfPush), gradients;
    for (int i = 0; i < kRowsOfPush; ++i) {
      const auto offset = static_cast<uint64_t>(3 * i + 31 * trainer);
      rows.ids.push_back(RowId(static_cast<int>((step * 7 + offset) % kRows)));
      rows.to.push_back(&values[static_cast<size_t>(i)]);
    }
    std::sort(rows.ids.begin(), rows.ids.end());
    std::promise<Status> pulled, pushed;
    client.PullRows({.version = step, .exactly = true}, {rows},
                    [&](const StatusOr<uint64_t>& v) { pulled.set_value(v.status()); });
    TD_RETURN_IF_ERROR(pulled.get_future().get());
    for (const float value : values) {
      gradients.push_back(static_cast<float>((step * 13 + gradients.size()) % 7) - 3.1f +
                          0.1f * value);
    }
    client.Push(step, 0.01f, {}, [&](Status status) { pushed.set_value(std::move(status)); },
                {{"rows", rows.ids, gradients.data()}});
    return pushed.get_future().get();
  }
  void Train(int trainer) override {
    const auto client = StepClient(trainer);
    for (uint64_t step = 0; step < last_; ++step) {
      // Ends the training two steps later, because another trainer may already be in the next step.
      if (trainer == 0 && stop_ && last_ == UINT64_MAX) last_ = step + 2;
      const Status status = MakeStep(*client, trainer, step);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return;
      ++pushes_;
    }
    EXPECT_TRUE(client->Complete().ok());
  }
  // Returns all rows with their optimizer slots, by id.
  static std::map<uint64_t, std::vector<float>> Rows(ps::PsClient& client) {
    const StatusOr<ps::PsTableRows> rows = client.PullTable("rows", /*slots=*/true);
    CHECK(rows.ok()) << rows.status();
    std::map<uint64_t, std::vector<float>> all;
    const size_t width = rows->content.size() / std::max<size_t>(1, rows->ids.size());
    for (size_t i = 0; i < rows->ids.size(); ++i) {
      const float* const row = rows->content.data() + i * width;
      all[rows->ids[i]] = {row, row + width};
    }
    return all;
  }
  // Trains for the same number of steps on new servers, without moves.
  void TrainCalmly() {
    servers_.clear();
    endpoints_.clear();
    trainers_.clear();
    folder_ = "calm-";
    StartServer(0);
    StartServer(1);
    for (int t = 0; t < kTrainers; ++t) trainers_.emplace_back([this, t] { Train(t); });
    End();
    std::printf("rebalance: %llu steps\n", static_cast<unsigned long long>(last_.load()));
  }
  void ExpectSameBits() {
    const auto moved = Rows(*StepClient(0));
    TrainCalmly();
    EXPECT_EQ(moved.size(), static_cast<size_t>(kRows));
    EXPECT_EQ(moved, Rows(*StepClient(0)));
  }

  std::atomic<uint64_t> last_ = UINT64_MAX;
};

}  // namespace tandem
