// Tests tandemrun --mode=collective --max_restarts. The tests kill ranks at random moments.
// Surviving ranks wait for the replacements and send them the state. The job must have the bits of
// an undisturbed job.
//   TANDEM_RECOVERY_ROUNDS=N random kills (6) TANDEM_RECOVERY_SEED=N of ranks and times (1)
#include <signal.h>

#include <algorithm>
#include <random>
#include <thread>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

class RecoveryTest : public JobTest {
 protected:
  static Args Launch(int ranks, int restarts) {
    Args launch = {"--mode=collective", "--nproc=" + std::to_string(ranks)};
    if (restarts > 0) launch.push_back("--max_restarts=" + std::to_string(restarts));
    return launch;
  }
  static Args With(Args args, const Args& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // Waits until all these ranks run. After that, sends `number` to all of them at the same time.
  static void Signal(const ChildProcess& job, const std::vector<int>& ranks, int number) {
    std::vector<pid_t> pids;
    ASSERT_TRUE(WaitUntil([&] {
      pids.clear();
      for (const int rank : ranks) pids.push_back(TrainerOf(job, rank));
      return std::find(pids.begin(), pids.end(), 0) == pids.end();
    })) << job.Output();
    for (const pid_t pid : pids) kill(pid, number);
  }
  struct KillAt {
    int step;
    std::vector<int> ranks;
  };
  // Runs a job undisturbed, and the same job with kills and the arguments `more`. Both jobs must
  // give the same parameters. Returns the output of the job with kills.
  std::string SameBits(int ranks, const Args& args, const std::vector<KillAt>& kills,
                       const Args& more = {});
};

std::string RecoveryTest::SameBits(int ranks, const Args& args, const std::vector<KillAt>& kills,
                                   const Args& more) {
  const Args all = With(args, {"--log_every_steps=1"});
  const JobRun quiet = RunJob("quiet", Launch(ranks, 0), all);
  const auto job = StartJob("killed", Launch(ranks, 50), With(all, more));
  for (const KillAt& at : kills) {
    EXPECT_TRUE(WaitUntil([&] { return StepOf(*job) >= at.step; })) << job->Output();
    Signal(*job, at.ranks, SIGKILL);
  }
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  const JobResult result = ResultOf("killed");
  EXPECT_EQ(result.params_sha256, quiet.result.params_sha256) << job->Output();
  EXPECT_EQ(result.loss, quiet.result.loss);
  return job->Output();
}

TEST_F(RecoveryTest, KilledRanksChangeNoBit) {
  const std::string output =
      SameBits(3, {"--steps_max=450", "--optimizer.type=adam", "--optimizer.learning_rate=0.001"},
               {{20, {1}}, {60, {0}}, {100, {2, 1}}, {140, {0, 2}}});
  EXPECT_THAT(output, HasSubstr("restarting it (restart 6 of 50)"));
  EXPECT_THAT(output, HasSubstr("all 3 ranks have joined again"));
  EXPECT_THAT(output, HasSubstr("rank 1"));
}

TEST_F(RecoveryTest, OverTcpInProgramOrderWithAPeriodOfMerges) {
  SameBits(2,
           {"--steps_max=400", "--collective_transport=Tcp",
            "--strategy.execution_strategy.num_threads=1", "--gradient_merge=true",
            "--strategy.gradient_merge_configs.k_steps=4"},
           {{18, {1}}, {43, {0}}, {81, {1}}});
}

TEST_F(RecoveryTest, WithPartsOfBatchesAndSeveralStepsARun) {
  SameBits(2,
           {"--steps_max=400", "--batch_merge_repeats=2",
            "--strategy.execution_strategy.num_iteration_per_run=5"},
           {{15, {1}}, {45, {0}}, {85, {1}}});
}

// All ranks are killed at once. Thus no rank has the state, and the restarted ranks load the
// checkpoint.
TEST_F(RecoveryTest, WithoutSurvivorsTheCheckpointCounts) {
  const std::string output =
      SameBits(2, {"--steps_max=450"}, {{47, {0, 1}}},
               {"--checkpoint.dir=" + Path("checkpoints"), "--checkpoint.every_steps=20"});
  EXPECT_THAT(output, testing::ContainsRegex("resumed at step [0-9]*[02468]0 of 450"));
}

// The collective waits up to step_timeout_ms for a hanging rank. After another step_timeout_ms, the
// launcher kills the rank. The much longer timeout for starting ranks does not delay the kill.
TEST_F(RecoveryTest, AStoppedRankIsKilledAndReplaced) {
  const Args args = {"--steps_max=450", "--log_every_steps=1"};
  const JobRun quiet = RunJob("quiet", Launch(3, 0), args);
  const auto job = StartJob("stopped", Launch(3, 5),
                            With(args, {"--step_timeout_ms=6000", "--start_timeout_ms=90000"}));
  int step = 20;
  for (const int rank : {1, 0}) {
    ASSERT_TRUE(job->WaitForText("step=" + std::to_string(step) + " ")) << job->Output();
    Signal(*job, {rank}, SIGSTOP);
    const Time begin = SteadyNow();
    const std::string who = "trainer " + std::to_string(rank);
    EXPECT_TRUE(job->WaitForText("is waiting for " + who + ", which does not reply"))
        << job->Output();
    EXPECT_TRUE(job->WaitForText(who + " does not reply")) << job->Output();
    // The limit is 60 seconds, because a busy machine is slow.
    EXPECT_LT(Seconds(SteadyNow() - begin), 60);
    step += 40;
  }
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("stopped").params_sha256, quiet.result.params_sha256);
}

// A rank that pauses for less than the timeout must not be killed.
TEST_F(RecoveryTest, APausedRankGoesOn) {
  const auto job = StartJob("paused", Launch(2, 5), {"--steps_max=450", "--log_every_steps=1"});
  ASSERT_TRUE(job->WaitForText("step=20 ")) << job->Output();
  Signal(*job, {1}, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  Signal(*job, {1}, SIGCONT);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_THAT(job->Output(), testing::Not(HasSubstr("joined again")));
}

TEST_F(RecoveryTest, OneKillTooManyEndsTheJob) {
  const auto job = StartJob("ends", Launch(2, 1), {"--epochs=1000", "--log_every_steps=1"});
  ASSERT_TRUE(job->WaitForText("step=20 ")) << job->Output();
  Signal(*job, {1}, SIGKILL);
  ASSERT_TRUE(job->WaitForText("ranks have joined again")) << job->Output();
  Signal(*job, {1}, SIGKILL);
  EXPECT_EQ(job->Wait(), 128 + SIGKILL) << job->Output();
  EXPECT_THAT(job->Output(), HasSubstr("killed by SIGKILL"));
}

TEST_F(RecoveryTest, WhatIsNotBuiltIsRefused) {
  for (const char* setting : {"--strategy.execution_strategy.cpu_num=2", "--reduce_strategy=Reduce",
                              "--localsgd=true", "--nccl_comm_num=2", "--auto=true"}) {
    const auto job = StartJob("refused", Launch(2, 1), {setting, "--steps_max=10"});
    EXPECT_EQ(job->Wait(), 2) << setting << job->Output();
    EXPECT_THAT(job->Output(), HasSubstr("--max_restarts is not implemented together with"));
  }
}

TEST_F(RecoveryTest, RandomKillsChangeNoBit) {
  const int rounds = FromEnvironment("TANDEM_RECOVERY_ROUNDS", 6);
  const auto seed = static_cast<uint32_t>(FromEnvironment("TANDEM_RECOVERY_SEED", 1));
  constexpr int kRanks = 3;
  // A round begins up to 100 steps after the previous one and takes some more steps. The number of
  // steps is larger than needed, because the test may read the job's output late.
  const Args args = {"--steps_max=" + std::to_string(1000 + rounds * 200),
                     "--log_every_steps=1",
                     "--optimizer.type=adam",
                     "--optimizer.learning_rate=0.0001",
                     "--epochs=100",
                     "--eval_every_epochs=0"};
  const JobRun quiet = RunJob("quiet", Launch(kRanks, 0), args);
  const auto job = StartJob("killed", Launch(kRanks, 1000000), args);
  ASSERT_TRUE(job->WaitForText("step=1 ")) << job->Output();
  std::mt19937 random(seed);
  int killed = 0;
  for (int round = 0; round < rounds && !job->Ended(); ++round) {
    const int step = StepOf(*job) + static_cast<int>(random() % 100);
    EXPECT_TRUE(WaitUntil([&] { return StepOf(*job) >= step || job->Ended(); })) << job->Output();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    // In some rounds a second rank is killed, during the recovery from the first kill.
    const int victims = random() % 4 == 0 ? 2 : 1;
    for (int v = 0; v < victims; ++v) {
      if (v > 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 800));
      const pid_t pid = TrainerOf(*job, static_cast<int>(random() % kRanks));
      if (pid == 0) continue;
      kill(pid, SIGKILL);
      ++killed;
    }
  }
  EXPECT_FALSE(job->Ended()) << "the job was too short";
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  std::printf("recovery: seed %u, %d ranks killed in %d rounds\n", seed, killed, rounds);
  EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256);
}

}  // namespace
}  // namespace tandem
