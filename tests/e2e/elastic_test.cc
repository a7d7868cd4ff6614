// Tests tandemrun --nproc=MIN:MAX. The tests kill ranks at random moments. The remaining ranks
// continue, and new ranks join. Deterministic jobs must have the bits of an undisturbed job.
//   TANDEM_ELASTIC_SEED=N of ranks and times (1) TANDEM_ELASTIC_ROUNDS=N kills and joins (4)
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <thread>

#include "common/launcher/elastic_world.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

class ElasticRanksTest : public JobTest {
 protected:
  static Args Launch(const std::string& ranks) { return {"--mode=collective", "--nproc=" + ranks}; }
  static void Kill(const ChildProcess& job, int rank, int number = SIGKILL) {
    const pid_t pid = TrainerOf(job, rank);
    ASSERT_NE(pid, 0) << job.Output();
    kill(pid, number);
  }
  // Waits until the job has reached `step`, then sends a signal (by default SIGKILL) to the rank.
  static void KillAt(ChildProcess& job, int step, int rank, int number = SIGKILL) {
    ASSERT_TRUE(WaitUntil([&] { return StepOf(job) >= step || job.Ended(); })) << job.Output();
    Kill(job, rank, number);
  }
  // Pauses `rank`, the only rank that trains, until the world has version `version`. Thus the job
  // cannot end before a new rank has joined.
  void HoldUntilWorld(const ChildProcess& job, int rank, int version) const {
    Kill(job, rank, SIGSTOP);
    const std::string begin = "version " + std::to_string(version) + " ";
    EXPECT_TRUE(WaitUntil([&] {
      return ReadWholeFile(Path("grows.log/world")).starts_with(begin);
    })) << job.Output();
    Kill(job, rank, SIGCONT);
  }
};

// 126 samples are divided over 4, 3 and 2 ranks. The shares of the ranks have different sizes, but
// the mean of the loss is over all samples.
TEST_F(ElasticRanksTest, FourThreeTwo) {
  const Args args = {"--steps_max=1000", "--epochs=10", "--log_every_steps=5",
                     "--global_batch_size=126"};
  const JobRun quiet = RunJob("quiet", Launch("4"), args);
  const auto job = StartJob("killed", Launch("2:4"), args);
  KillAt(*job, 20, 2);
  ASSERT_TRUE(job->WaitForText("trainer 2 is lost; 3 ranks continue (world 2: trainers 0, 1, 3)"))
      << job->Output();
  KillAt(*job, 60, 0);
  ASSERT_TRUE(job->WaitForText("trainer 0 is lost; 2 ranks continue (world 3: trainers 1, 3)"))
      << job->Output();
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  const JobResult result = ResultOf("killed");
  EXPECT_EQ(result.steps, 1000);
  EXPECT_NEAR(result.loss, quiet.result.loss, 0.05);
}

// 8 logical shards can be divided among 4, 2 and 1 ranks. If three ranks remain, one of them has no
// shards and waits. The waiting rank takes part again when another rank is lost.
TEST_F(ElasticRanksTest, KillsAtAnyMomentChangeNoBit) {
  const auto seed = static_cast<uint32_t>(FromEnvironment("TANDEM_ELASTIC_SEED", 1));
  const Args args = {"--steps_max=1000",
                     "--epochs=10",
                     "--log_every_steps=5",
                     "--deterministic=true",
                     "--logical_shards=8",
                     "--optimizer.type=adam",
                     "--optimizer.learning_rate=0.001"};
  const JobRun quiet = RunJob("quiet", Launch("4"), args);
  const auto job = StartJob("killed", Launch("1:4"), args);
  std::mt19937 random(seed);
  std::vector<int> ranks = {0, 1, 2, 3};
  std::string order;
  for (int step = 10; ranks.size() > 1; step += 60) {
    ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) >= step || job->Ended(); })) << job->Output();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 50000));
    const auto victim = static_cast<std::ptrdiff_t>(random() % ranks.size());
    order += " " + std::to_string(ranks[static_cast<size_t>(victim)]);
    Kill(*job, ranks[static_cast<size_t>(victim)]);
    ranks.erase(ranks.begin() + victim);
  }
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  std::printf("elastic: seed %u, ranks killed:%s\n", seed, order.c_str());
  const JobResult result = ResultOf("killed");
  EXPECT_EQ(result.steps, 1000);
  EXPECT_EQ(result.params_sha256, quiet.result.params_sha256) << job->Output();
  EXPECT_EQ(result.loss, quiet.result.loss);
  EXPECT_THAT(job->Output(), HasSubstr("1 rank continues (world 4: trainer"));
}

// When a step is aborted, the ranks undo its changes of running statistics. The final evaluation
// uses the running statistics of rank 0, so the test kills rank 1.
TEST_F(ElasticRanksTest, RunningStatisticsToo) {
  job_ = Write("resnet18.pbtxt", kResNet18Job);
  const Args args = {"--steps_max=16", "--log_every_steps=1", "--deterministic=true"};
  const JobRun quiet = RunJob("quiet", Launch("2"), args);
  const auto job = StartJob("killed", Launch("1:2"), args);
  KillAt(*job, 5, 1);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256) << job->Output();
  EXPECT_EQ(ResultOf("killed").loss, quiet.result.loss);
}

// Two ranks die, one of them rank 0. The second rank may die during the rendezvous of the other
// ranks.
TEST_F(ElasticRanksTest, TwoAtOnceWithSumsOverSteps) {
  const Args args = {"--steps_max=500", "--epochs=10", "--log_every_steps=5",
                     "--gradient_merge=true", "--strategy.gradient_merge_configs.k_steps=4"};
  const auto job = StartJob("killed", Launch("1:3"), args);
  KillAt(*job, 22, 0);
  Kill(*job, 1);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("1 rank continues"));
  EXPECT_EQ(ResultOf("killed").steps, 500);
}

TEST_F(ElasticRanksTest, BelowTheLeastTheJobEnds) {
  const auto job = StartJob("ends", Launch("2:3"), {"--epochs=1000", "--log_every_steps=5"});
  KillAt(*job, 10, 1);
  ASSERT_TRUE(job->WaitForText("2 ranks continue (world 2")) << job->Output();
  Kill(*job, 2);
  EXPECT_EQ(job->Wait(), 128 + SIGKILL) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("only 1 of 3 ranks are left, but the job needs 2"));
}

// If a rank hangs, the other ranks detect the hang, and the launcher kills the rank.
TEST_F(ElasticRanksTest, AStoppedRankIsLost) {
  const auto job = StartJob("stopped", Launch("1:2"),
                            {"--steps_max=500", "--epochs=10", "--log_every_steps=5",
                             "--step_timeout_ms=3000", "--start_timeout_ms=4000"});
  KillAt(*job, 20, 1, SIGSTOP);
  EXPECT_TRUE(job->WaitForText("trainer 1 does not reply")) << job->Output();
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("1 rank continues (world 2: trainer 0)"));
}

// A lost rank, even rank 0, may join again. A lost rank joins automatically with --max_restarts, or
// after a request (SIGUSR1 to the launcher). Until then the remaining ranks continue.
TEST_F(ElasticRanksTest, LostRanksComeAgain) {
  const Args args = {"--steps_max=1000", "--epochs=10", "--log_every_steps=5",
                     "--deterministic=true"};
  const JobRun quiet = RunJob("quiet", Launch("2"), args);
  const auto job =
      StartJob("grows", {"--mode=collective", "--nproc=1:2", "--max_restarts=1"}, args);
  KillAt(*job, 20, 1);
  ASSERT_TRUE(job->WaitForText("trainer 1 is lost; 1 rank continues (world 2")) << job->Output();
  HoldUntilWorld(*job, 0, 3);
  ASSERT_TRUE(job->WaitForText("trainer 1 has joined; 2 ranks continue (world 3: trainers 0, 1)"))
      << job->Output();
  KillAt(*job, StepOf(*job) + 20, 0);
  ASSERT_TRUE(job->WaitForText("trainer 0 is lost; 1 rank continues (world 4")) << job->Output();
  job->Signal(SIGUSR1);
  HoldUntilWorld(*job, 1, 5);
  ASSERT_TRUE(job->WaitForText("trainer 0 has joined; 2 ranks continue (world 5: trainers 0, 1)"))
      << job->Output();
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("grows").params_sha256, quiet.result.params_sha256) << job->Output();
}

// Kills random ranks, some of them while they are joining, and requests (SIGUSR1) that lost ranks
// join again.
TEST_F(ElasticRanksTest, ComingAndGoingChangesNoBit) {
  const auto seed = static_cast<uint32_t>(FromEnvironment("TANDEM_ELASTIC_SEED", 1));
  const int rounds = FromEnvironment("TANDEM_ELASTIC_ROUNDS", 4);
  const Args args = {"--steps_max=" + std::to_string(1000 + rounds * 300),
                     "--epochs=100",
                     "--log_every_steps=5",
                     "--deterministic=true",
                     "--optimizer.type=adam",
                     "--optimizer.learning_rate=0.001"};
  const JobRun quiet = RunJob("quiet", Launch("4"), args);
  const auto job = StartJob("changes", Launch("1:4"), args);
  std::mt19937 random(seed);
  int killed = 0, called = 0, step = 0;
  for (int round = 0; round < rounds; ++round) {
    step = std::max(step, StepOf(*job)) + 1 + static_cast<int>(random() % 150);
    ASSERT_TRUE(WaitUntil([&] { return StepOf(*job) >= step || job->Ended(); })) << job->Output();
    if (round % 2 == 1) {
      job->Signal(SIGUSR1);
      ++called;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1500000));
    }
    // The victim may be any rank except the only one that trains and thus has the state.
    const auto world = ReadElasticWorld(Path("changes.log/world"));
    ASSERT_TRUE(world.ok()) << world.status();
    const int victim = static_cast<int>(random() % 4);
    const pid_t pid = TrainerOf(*job, victim);
    if (pid == 0 || world->members == std::vector<int>{victim}) continue;
    kill(pid, SIGKILL);
    ++killed;
    const auto gone = [&] { return TrainerOf(*job, victim) != pid || job->Ended(); };
    EXPECT_TRUE(WaitUntil(gone));
    const auto known = [&] {
      const auto now = ReadElasticWorld(Path("changes.log/world"));
      return job->Ended() ||
             (now.ok() && !std::count(now->members.begin(), now->members.end(), victim));
    };
    EXPECT_TRUE(WaitUntil(known)) << job->Output();
  }
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  std::printf("elastic: seed %u, %d ranks killed, %d calls\n", seed, killed, called);
  EXPECT_EQ(ResultOf("changes").params_sha256, quiet.result.params_sha256) << job->Output();
}

// If fewer ranks than the minimum remain, the remaining ranks wait for the replacement of the lost
// rank.
TEST_F(ElasticRanksTest, BelowTheLeastSuccessorsAreWaitedFor) {
  const auto job = StartJob("waits", {"--mode=collective", "--nproc=2:2", "--max_restarts=1"},
                            {"--steps_max=1000", "--epochs=10", "--log_every_steps=5"});
  KillAt(*job, 20, 1);
  ASSERT_TRUE(job->WaitForText("all 2 ranks have joined again")) << job->Output();
  EXPECT_EQ(job->Wait(), 0) << job->Output();
}

// After the loss of rank 0, the new leader evaluates and writes checkpoints and events. A later run
// resumes from a checkpoint of the new leader.
TEST_F(ElasticRanksTest, AnotherRankLeads) {
  const Args args = {"--steps_max=1000", "--epochs=10", "--log_every_steps=5",
                     "--deterministic=true", "--checkpoint.every_steps=250"};
  const JobRun quiet = RunJob("quiet", Launch("2"), args);
  Args all = args;
  all.push_back("--checkpoint.dir=" + Path("checkpoints"));
  all.push_back("--tensorboard_dir=" + Path("events"));
  const auto job = StartJob("killed", Launch("1:2"), all);
  KillAt(*job, 300, 0);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256);
  const std::filesystem::directory_iterator events(Path("events"));
  EXPECT_EQ(std::distance(begin(events), end(events)), 2) << "a file of each rank 0";
  const JobRun later = RunJob("later", Launch("1"), all);
  EXPECT_THAT(later.output, HasSubstr("resumed at step 1000 of 1000"));
  EXPECT_EQ(later.result.params_sha256, quiet.result.params_sha256);
}

}  // namespace
}  // namespace tandem
