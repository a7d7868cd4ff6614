// tandemrun --nproc=MIN:MAX: ranks are killed for good at any moment, and those that are left go on
// without them, with the bits of an undisturbed job where it is deterministic.
//   TANDEM_SHRINKING_SEED=N  of ranks and times (1)
#include <signal.h>

#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

class ShrinkingTest : public JobTest {
 protected:
  static Args Launch(const std::string& ranks) { return {"--mode=collective", "--nproc=" + ranks}; }
  static void Kill(const ChildProcess& job, int rank, int number = SIGKILL) {
    const pid_t pid = TrainerOf(job, rank);
    ASSERT_NE(pid, 0) << job.Output();
    kill(pid, number);
  }
  // Once the job shows that step.
  static void KillAt(ChildProcess& job, int step, int rank, int number = SIGKILL) {
    ASSERT_TRUE(WaitUntil([&] { return StepOf(job) >= step || job.Ended(); })) << job.Output();
    Kill(job, rank, number);
  }
};

// 126 samples over 4, 3 and 2 ranks: shares of different sizes, and one mean over all of them.
TEST_F(ShrinkingTest, FourThreeTwo) {
  const Args args = {"--steps_max=3000", "--epochs=10", "--log_every_steps=5",
                     "--global_batch_size=126"};
  const JobRun quiet = RunJob("quiet", Launch("4"), args);
  const auto job = StartJob("killed", Launch("2:4"), args);
  KillAt(*job, 20, 2);
  ASSERT_TRUE(job->WaitForText("trainer 2 is lost; 3 ranks go on (world 2: trainers 0, 1, 3)"))
      << job->Output();
  KillAt(*job, 60, 0);
  ASSERT_TRUE(job->WaitForText("trainer 0 is lost; 2 ranks go on (world 3: trainers 1, 3)"))
      << job->Output();
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  const JobResult result = ResultOf("killed");
  EXPECT_EQ(result.steps, 3000);
  EXPECT_NEAR(result.loss, quiet.result.loss, 0.05);
}

// 8 logical shards divide among 4, 2 and 1 ranks: of three that are left one waits, and takes part
// once another one is lost.
TEST_F(ShrinkingTest, KillsAtAnyMomentChangeNoBit) {
  const auto seed = static_cast<uint32_t>(FromEnvironment("TANDEM_SHRINKING_SEED", 1));
  const Args args = {"--steps_max=4000",
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
  std::printf("shrinking: seed %u, ranks killed:%s\n", seed, order.c_str());
  const JobResult result = ResultOf("killed");
  EXPECT_EQ(result.steps, 4000);
  EXPECT_EQ(result.params_sha256, quiet.result.params_sha256) << job->Output();
  EXPECT_EQ(result.loss, quiet.result.loss);
  EXPECT_THAT(job->Output(), HasSubstr("1 rank goes on (world 4: trainer"));
}

// Two at once, of which one is rank 0: the second may die while the others meet.
TEST_F(ShrinkingTest, TwoAtOnceWithSumsOverSteps) {
  const Args args = {"--steps_max=3000", "--epochs=10", "--log_every_steps=5",
                     "--gradient_merge=true", "--strategy.gradient_merge_configs.k_steps=4"};
  const auto job = StartJob("killed", Launch("1:3"), args);
  KillAt(*job, 22, 0);
  Kill(*job, 1);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("1 rank goes on"));
  EXPECT_EQ(ResultOf("killed").steps, 3000);
}

TEST_F(ShrinkingTest, BelowTheLeastTheJobEnds) {
  const auto job = StartJob("ends", Launch("2:3"), {"--epochs=1000", "--log_every_steps=5"});
  KillAt(*job, 10, 1);
  ASSERT_TRUE(job->WaitForText("2 ranks go on (world 2")) << job->Output();
  Kill(*job, 2);
  EXPECT_EQ(job->Wait(), 128 + SIGKILL) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("1 of 3 ranks are left, and the job needs 2"));
}

// One that hangs is found out by the others, and killed.
TEST_F(ShrinkingTest, AStoppedRankIsLost) {
  const auto job = StartJob("stopped", Launch("1:2"),
                            {"--steps_max=3000", "--epochs=10", "--log_every_steps=5",
                             "--step_timeout_ms=3000", "--start_timeout_ms=4000"});
  KillAt(*job, 20, 1, SIGSTOP);
  EXPECT_TRUE(job->WaitForText("trainer 1 does not answer")) << job->Output();
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("1 rank goes on (world 2: trainer 0)"));
}

// First it comes again, as often as it may; then it is lost.
TEST_F(ShrinkingTest, RestartsComeFirst) {
  const auto job = StartJob("restarts", {"--mode=collective", "--nproc=1:2", "--max_restarts=1"},
                            {"--steps_max=3000", "--epochs=10", "--log_every_steps=5"});
  KillAt(*job, 20, 1);
  ASSERT_TRUE(job->WaitForText("all 2 ranks are there again")) << job->Output();
  Kill(*job, 1);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("trainer 1 is lost; 1 rank goes on"));
}

// Who comes to lead writes checkpoints and evaluates; a later run goes on from them.
TEST_F(ShrinkingTest, AnotherRankLeads) {
  const Args args = {"--steps_max=3000", "--epochs=10", "--log_every_steps=5",
                     "--deterministic=true", "--checkpoint.every_steps=250"};
  const JobRun quiet = RunJob("quiet", Launch("2"), args);
  Args all = args;
  all.push_back("--checkpoint.dir=" + Path("checkpoints"));
  const auto job = StartJob("killed", Launch("1:2"), all);
  KillAt(*job, 300, 0);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256);
  const JobRun later = RunJob("later", Launch("1"), all);
  EXPECT_THAT(later.output, HasSubstr("resumed at step 3000 of 3000"));
  EXPECT_EQ(later.result.params_sha256, quiet.result.params_sha256);
}

}  // namespace
}  // namespace tandem
