// Tests that a job that dies in the middle and is restarted has the result of an undisturbed job.
#include <signal.h>

#include <filesystem>
#include <sstream>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Args = std::vector<std::string>;

const Args kLocal = {"--mode=local"};
const Args kCollective = {"--mode=collective", "--nproc=2"};
const Args kPserver = {"--servers=2", "--workers=2"};

class ResumeTest : public JobTest {
 protected:
  // Returns the arguments of a job of `steps` steps with checkpoints in the directory `store`.
  Args Flags(const std::string& store, int steps) const {
    return {"--checkpoint.dir=" + Path(store), "--checkpoint.every_steps=20",
            "--steps_max=" + std::to_string(steps)};
  }
  std::string Sha(const std::string& store, const Args& launch, int steps) const {
    return RunJob(store, launch, Flags(store, steps)).result.params_sha256;
  }
  bool Saved(const std::string& store, const std::string& step) const {
    return std::filesystem::exists(Path(store) + "/step-" + step + "/manifest.pbtxt");
  }

  // Starts the job and kills the launcher when a checkpoint exists. All trainers of the job must
  // end too.
  void KillInTheMiddle(const std::string& store, const Args& launch) const {
    const auto job = StartJob(store, launch, Flags(store, 10000));
    ASSERT_TRUE(WaitUntil([&] { return Saved(store, "00000020"); })) << job->Output();
    const auto trainers = ChildrenOf(job->pid(), "tandem-trainer");
    EXPECT_FALSE(trainers.empty());
    job->Signal(SIGKILL);
    for (const pid_t pid : trainers) {
      EXPECT_TRUE(WaitUntil([pid] { return kill(pid, 0) != 0; }, 10)) << "an orphan is left";
    }
    // Removes checkpoints after step 40, because the resumed job has fewer steps and would end at
    // once with a later checkpoint.
    for (const auto& entry : std::filesystem::directory_iterator(Path(store))) {
      if (entry.path().filename() > "step-00000040") std::filesystem::remove_all(entry.path());
    }
  }
};

TEST_F(ResumeTest, KilledDistributedJobEndsWithTheBitsOfTheUndisturbed) {
  const std::string undisturbed = Sha("whole", kCollective, 60);
  KillInTheMiddle("ring", kCollective);
  EXPECT_EQ(Sha("ring", kCollective, 60), undisturbed);
  KillInTheMiddle("servers", kPserver);
  EXPECT_EQ(Sha("servers", kPserver, 60), undisturbed);
}

TEST_F(ResumeTest, KilledLocalJob) {
  const std::string undisturbed = Sha("whole", kLocal, 60);
  KillInTheMiddle("killed", kLocal);
  EXPECT_EQ(Sha("killed", kLocal, 60), undisturbed);
}

// Goodput counts each step once, even if new processes repeat the step.
TEST_F(ResumeTest, StepsThatAreDoneAgainAreKnown) {
  const auto furthest = [this] {
    std::istringstream text(ReadWholeFile(Path("store") + "/furthest_step"));
    std::string job;
    int64_t steps = 0;
    text >> job >> steps;
    return steps;
  };
  const auto first = RunJob("store", kCollective, Flags("store", 20));
  EXPECT_EQ(first.result.counts.count("repeated_steps"), 0u);
  Args flags = Flags("store", 10000);
  flags[1] = "--checkpoint.every_steps=0";
  const auto job = StartJob("store", kCollective, flags);
  EXPECT_TRUE(WaitUntil([&] { return furthest() > 20; })) << job->Output();
  for (const pid_t pid : ChildrenOf(job->pid(), "tandem-trainer")) kill(pid, SIGKILL);
  EXPECT_NE(job->Wait(), 0);
  const int64_t done = furthest();
  flags[2] = "--steps_max=" + std::to_string(done + 5);
  const auto after = RunJob("store", kCollective, flags);
  EXPECT_EQ(after.result.counts.at("repeated_steps"), done - 20);
}

// The checkpoint contains the optimizer slots, which are on pservers or on trainers, depending on
// the mode. Thus the job can resume in the other mode.
TEST_F(ResumeTest, GoesOnInTheOtherMode) {
  const std::string undisturbed = Sha("whole", kCollective, 60);
  Sha("moved", kPserver, 40);
  EXPECT_EQ(Sha("moved", kCollective, 60), undisturbed);
  Sha("back", kCollective, 40);
  EXPECT_EQ(Sha("back", kPserver, 60), undisturbed);
}

TEST_F(ResumeTest, RefusesWhatItMayNotContinue) {
  Sha("job", kLocal, 20);
  const auto refusal = [this](const std::string& flag) {
    Args flags = Flags("job", 40);
    flags.push_back(flag);
    const auto job = StartJob("refused", kLocal, flags);
    EXPECT_GT(job->Wait(), 0);
    return job->Output();
  };
  EXPECT_THAT(refusal("--checkpoint.resume=false"), HasSubstr("checkpoint.resume is false"));
  EXPECT_THAT(refusal("--name=other"), HasSubstr("not of job \"other\""));
}

TEST_F(ResumeTest, SigtermEndsTheJobWithACheckpoint) {
  const auto job = StartJob("stopped", kCollective, Flags("stopped", 100000));
  ASSERT_TRUE(WaitUntil([&] { return Saved("stopped", "00000020"); })) << job->Output();
  job->Signal(SIGTERM);
  // The second signal belongs to the same request to stop: timeout(1) also sends two signals.
  job->Signal(SIGTERM);
  EXPECT_GE(job->Wait(), 0) << job->Output();
}

}  // namespace
}  // namespace tandem
