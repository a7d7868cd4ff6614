// tandemrun --max_restarts: trainers and pservers are killed in the middle of a sync job; their
// successors take up the step, and the final parameters are those of an undisturbed job.
#include <signal.h>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

class RestartsTest : public JobTest {
 protected:
  struct Kill {
    const char* when;
    const char* program;
  };
  // The job ends with the parameters of the undisturbed one.
  void ExpectNoChange(const std::vector<std::string>& restarting, const std::vector<Kill>& kills) {
    const std::vector<std::string> args = {"--steps_max=460", "--log_every_steps=1",
                                           "--optimizer.type=adam",
                                           "--optimizer.learning_rate=0.001"};
    std::vector<std::string> launch = {"--servers=2", "--workers=2"};
    const JobRun quiet = RunJob("quiet", launch, args);
    ASSERT_EQ(quiet.exit_code, 0) << quiet.output;
    launch.insert(launch.end(), restarting.begin(), restarting.end());
    const auto job = StartJob("killed", launch, args);
    int which = 0;
    for (const Kill& kill_at : kills) {
      ASSERT_TRUE(job->WaitForText(kill_at.when)) << job->Output();
      const std::vector<pid_t> there = ChildrenOf(job->pid(), kill_at.program);
      ASSERT_EQ(there.size(), 2u) << job->Output();
      kill(there[static_cast<size_t>(which++ % 2)], SIGKILL);
    }
    EXPECT_EQ(job->Wait(), 0) << job->Output();
    EXPECT_THAT(job->Output(),
                HasSubstr(absl::StrFormat("starting it again (%d of 20)", kills.size())));
    EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256);
  }
};

TEST_F(RestartsTest, KilledTrainersAndPserversChangeNoBit) {
  ExpectNoChange({"--max_restarts=20", "--pserver_data_dir=" + Path("data")},
                 {{"step=20 ", "tandem-trainer"},
                  {"step=60 ", "tandem-pserver"},
                  {"step=100 ", "tandem-trainer"},
                  {"step=140 ", "tandem-pserver"},
                  {"step=180 ", "tandem-trainer"}});
}

TEST_F(RestartsTest, TrainersGivePserversWhatTheyLack) {
  ExpectNoChange({"--max_restarts=20", "--pserver_data_dir=" + Path("data"),
                  "--durability=replayable", "--keep_pushes_mb=64"},
                 {{"step=60 ", "tandem-pserver"}, {"step=140 ", "tandem-pserver"}});
}

TEST_F(RestartsTest, WithoutItTheJobEnds) {
  const auto job = StartJob("ends", {"--servers=1", "--workers=2"}, {"--epochs=1000"});
  ASSERT_TRUE(job->WaitForText("step=50 ")) << job->Output();
  kill(TrainerOf(*job, 0), SIGKILL);
  EXPECT_EQ(job->Wait(), 128 + SIGKILL);
}

}  // namespace
}  // namespace tandem
