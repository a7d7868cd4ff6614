// Tests simulated jobs whose servers log only the order of pushes (durability=replayable), in
// situations that random runs hardly reach.
#include <array>
#include <map>
#include <utility>

#include "gmock/gmock.h"
#include "pserver/client/client.h"
#include "tests/sim/carrier.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kServers = 2, kTrainers = 2;
constexpr int kFirstTrainer = 100;
constexpr char kJob[] = "sim";
constexpr uint64_t kKeptSteps = 4, kKept = kKeptSteps * 4 * sizeof(float);

class SimReplayTest : public testing::Test {
 protected:
  SimReplayTest() : world_(1), network_(world_, {}) {
    for (int i = 0; i < kServers; ++i) {
      servers_.push_back(std::make_unique<SimServer>(
          i,
          SimServerOptions{
              .job = kJob, .trainers = kTrainers, .replayable = true, .keep_bytes_max = kKept},
          world_));
      EXPECT_TRUE(servers_.back()->Start().ok());
    }
  }
  ~SimReplayTest() override {
    for (auto& p : processes_) p->Kill();
    for (auto& server : servers_) {
      if (server->alive()) server->Kill(false);
    }
    world_.Forget();
  }

  // Starts a trainer that pushes the steps below `steps_`, which a test may increase, and stays
  // alive. A later process of the same rank replaces the earlier process.
  void StartTrainer(int rank) {
    const auto process = std::make_shared<SimProcess>(world_, kFirstTrainer + rank);
    processes_.push_back(process);
    const uint64_t incarnation = ++incarnations_[static_cast<size_t>(rank)];
    process->Start([this, rank, incarnation, weak = std::weak_ptr(process)] {
      const auto self = weak.lock();
      const Status status = Train(self, rank, incarnation);
      EXPECT_TRUE(status.ok() || self->dead()) << "trainer " << rank << ": " << status;
    });
  }
  Status Train(const std::shared_ptr<SimProcess>& process, int rank, uint64_t incarnation) {
    std::array<float, 4> w = {};
    std::vector<SimAddress*> servers;
    for (auto& server : servers_) servers.push_back(server.get());
    ps::PsOptions options{
        .job = kJob, .trainer = rank, .trainers = kTrainers, .incarnation = incarnation};
    options.partition.min_block_size = 1;
    const auto client =
        ps::PsClient::Over(std::make_unique<SimCarrier>(process, network_, servers, /*retries=*/3),
                           {"server-0", "server-1"}, options);
    const std::vector<ps::PsTensor> all = {{"w", w.data(), 4}};
    TD_RETURN_IF_ERROR(client->Configure({{"w", Shape{2, 2}}}, ps::PsMode::kASync, {}).status());
    TD_RETURN_IF_ERROR(client->InitOrFetch(all).status());
    for (uint64_t step = 0; !process->dead(); ++step) {
      while (step >= steps_ && !process->dead()) {
        process->MakeEvent()->WaitUntil(world_.Now() + milliseconds(10));
      }
      TD_RETURN_IF_ERROR(Push(*client, *process, step));
      pushed_[{rank, incarnation}] = step + 1;
    }
    return OkStatus();
  }
  Status Push(ps::PsClient& client, SimProcess& process, uint64_t step) {
    const std::array<float, 4> minus_one = {-1, -1, -1, -1};
    const auto pushed = std::make_shared<Status>(DeadlineExceeded("the push did not end"));
    const std::shared_ptr<ps::PsEvent> ended = process.MakeEvent();
    client.Push(step, 1.0f, {{"w", minus_one.data(), 4}}, [ended, pushed](const Status& status) {
      *pushed = status;
      ended->Set();
    });
    ended->WaitUntil(world_.Now() + seconds(200));
    return *pushed;
  }
  void KillTrainers() {
    for (auto& p : processes_) p->Kill();
  }
  void StartAgain(int server) {
    servers_[static_cast<size_t>(server)]->Kill(false);
    EXPECT_TRUE(servers_[static_cast<size_t>(server)]->Start().ok());
  }
  ShardInfo Info(int server) { return servers_[static_cast<size_t>(server)]->shard().Info(); }
  uint64_t Incarnation(int server, size_t trainer) {
    const ShardInfo info = Info(server);
    return trainer < info.trainers.size() ? info.trainers[trainer].incarnation : 0;
  }
  bool RunUntil(const std::function<bool()>& done) {
    return world_.RunUntil(done, world_.Now() + seconds(300));
  }
  // Returns whether the processes of both trainers with this incarnation have pushed `steps` steps.
  bool HavePushed(uint64_t incarnation, uint64_t steps) {
    return pushed_[{0, incarnation}] == steps && pushed_[{1, incarnation}] == steps;
  }

  SimWorld world_;
  SimNetwork network_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::shared_ptr<SimProcess>> processes_;
  std::array<uint64_t, kTrainers> incarnations_ = {};
  uint64_t steps_ = 1;
  // Number of pushed steps, by rank and incarnation.
  std::map<std::pair<int, uint64_t>, uint64_t> pushed_;
};

// All trainers die. Both servers die before they have written the pushes to their logs. Server 0
// dies after a call of replacement 0, the new process of trainer 0. Replacement 0 waits at server
// 1, which waits for replacement 1. Replacement 1 waits at server 0, where only replacement 0 can
// report that the pushes of trainer 0 are lost.
TEST_F(SimReplayTest, TrainersThatWaitAtTwoServersAreNotWaitedForThere) {
  for (int rank = 0; rank < kTrainers; ++rank) StartTrainer(rank);
  ASSERT_TRUE(RunUntil([&] { return HavePushed(1, 1); }));
  KillTrainers();
  StartAgain(1);
  StartTrainer(0);
  ASSERT_TRUE(RunUntil([&] { return Incarnation(0, 0) == 2; }));
  // At this time the reply of server 0 to replacement 0 is in transit, and server 0 has not begun
  // to write its log.
  ASSERT_TRUE(
      RunUntil([&, begin = world_.Now()] { return world_.Now() > begin + milliseconds(1); }));
  StartAgain(0);
  ASSERT_EQ(Info(0).version, 0u);
  ASSERT_EQ(Info(1).version, 0u);
  world_.RunUntil([] { return false; }, world_.Now() + seconds(2));
  const Time begin = world_.Now();
  StartTrainer(1);
  ASSERT_TRUE(RunUntil([&] { return HavePushed(2, 1); }));
  EXPECT_LT(Seconds(world_.Now() - begin), 5);  // much less than the deadlines of the calls
  for (int server = 0; server < kServers; ++server) {
    const ShardInfo info = Info(server);
    EXPECT_EQ(info.version, 4u);
    for (const TrainerInfo& trainer : info.trainers) EXPECT_EQ(trainer.lost_pushes, 1u);
  }
}

// A trainer keeps its pushes in memory, so that restarted servers can request them again. If this
// memory is full, the trainer waits before its next push and has no call in progress. A restarted
// server must be able to request the kept pushes even from such a trainer.
TEST_F(SimReplayTest, WhoeverWaitsForRoomHearsOfServersThatWereStartedAgain) {
  for (int rank = 0; rank < kTrainers; ++rank) StartTrainer(rank);
  steps_ = kKeptSteps;
  ASSERT_TRUE(RunUntil([&] { return HavePushed(1, steps_); }));
  for (int server = 0; server < kServers; ++server) {
    StartAgain(server);
    ASSERT_EQ(Info(server).version, 0u);
  }
  const Time begin = world_.Now();
  ++steps_;
  ASSERT_TRUE(RunUntil([&] { return HavePushed(1, steps_); }));
  // The trainer must react to the first report of a restarted server, without a random delay.
  EXPECT_LT(Seconds(world_.Now() - begin), 2);
  EXPECT_EQ(Info(1).version, kTrainers * steps_);
}

}  // namespace
}  // namespace tandem::pserver
