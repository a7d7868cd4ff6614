// Tests tandemrun --max_restarts. The tests kill or stop trainers and pservers of a sync job in the
// middle of the job. The replacements continue the step. The final parameters must be those of an
// undisturbed job. A drained pserver needs no replacement.
#include <signal.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

class RestartsTest : public JobTest {
 protected:
  struct Kill {
    const char* when;
    const char* program;
    int signal = SIGKILL;
    // Index of the process among the running processes of the program, oldest first. -1: alternates
    // between the first two processes from kill to kill.
    int at = -1;
  };
  // Runs a job undisturbed, and the same job with `kills`. Both jobs must end with the same
  // parameters. Returns the output of the job with kills.
  std::string ExpectNoChange(const std::vector<std::string>& restarting,
                             const std::vector<Kill>& kills,
                             const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--steps_max=460", "--log_every_steps=1",
                                     "--optimizer.type=adam", "--optimizer.learning_rate=0.001"};
    std::vector<std::string> launch = {"--servers=2", "--workers=2"};
    const std::string quiet = QuietParams(launch, args);
    launch.insert(launch.end(), restarting.begin(), restarting.end());
    args.insert(args.end(), more.begin(), more.end());
    const auto job = StartJob("killed", launch, args);
    int which = 0;
    for (const Kill& kill_at : kills) {
      EXPECT_TRUE(job->WaitForText(kill_at.when)) << job->Output();
      std::vector<pid_t> there;
      const bool both = WaitUntil([&] {
        there = ChildrenOf(job->pid(), kill_at.program);
        return there.size() == 2u;
      });
      EXPECT_TRUE(both) << job->Output();
      if (!both) break;
      which = kill_at.at >= 0 ? kill_at.at : which;
      kill(there[static_cast<size_t>(which++ % 2)], kill_at.signal);
    }
    EXPECT_EQ(job->Wait(), 0) << job->Output();
    std::string output = job->Output();
    EXPECT_THAT(output,
                HasSubstr(absl::StrFormat("restarting it (restart %d of 20)", kills.size())));
    // On a loaded machine a process may exceed a step_timeout although it was not stopped.
    if (more.empty()) {
      EXPECT_THAT(output, Not(HasSubstr(absl::StrFormat("(restart %d of 20)", kills.size() + 1))));
    }
    EXPECT_EQ(ResultOf("killed").params_sha256, quiet);
    return output;
  }
  // Returns the checksum of the parameters of the undisturbed job. All tests of this program have
  // the same undisturbed job, which runs once.
  std::string QuietParams(const std::vector<std::string>& launch,
                          const std::vector<std::string>& args) const {
    static const std::string params = [&] {
      const JobRun quiet = RunJob("quiet", launch, args);
      EXPECT_EQ(quiet.exit_code, 0) << quiet.output;
      return quiet.result.params_sha256;
    }();
    return params;
  }
  // Runs `tandem ARGS LOGS` to its end, where LOGS is the log directory of `job`. The command must
  // succeed. Returns its output.
  std::string Tandem(std::vector<std::string> args, const std::string& job) {
    args.push_back(Path(job + ".log"));
    ChildProcess command("tandem", args, {}, Path("tandem-" + std::to_string(commands_++)));
    EXPECT_EQ(command.Wait(), 0) << command.Output();
    return command.Output();
  }

  // Returns the process id of the pserver with this index; 0: the pserver never started.
  pid_t PserverOf(const std::string& job, int index) {
    for (const auto& event : nlohmann::json::parse(Tandem({"events", "-o", "json"}, job))) {
      const bool started = event["event"] == "started";
      if (started && event["process"] == absl::StrFormat("pserver %d", index)) return event["pid"];
    }
    return 0;
  }

  int commands_ = 0;
};

constexpr char kWordJob[] = R"(
name: "words"
model {
  zoo: "word2vec"
  arg { name: "rows" value: "90" }
  arg { name: "dim" value: "8" }
}
data {
  format: "skipgram"
  dir: "."
  skipgram { file: "text" vocabulary: 90 window: 2 test_share: 0.2 }
}
optimizer { type: "adagrad" learning_rate: 0.2 }
global_batch_size: 128
)";

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

TEST_F(RestartsTest, PserversThatAreToldToStopComeAgain) {
  ExpectNoChange(
      {"--max_restarts=20", "--pserver_data_dir=" + Path("data")},
      {{"step=20 ", "tandem-pserver", SIGTERM}, {"step=80 ", "tandem-pserver", SIGTERM}});
}

// The launcher reports, kills and replaces a process that is stopped with SIGSTOP.
TEST_F(RestartsTest, StoppedTrainersAndPserversAreReplacedAndChangeNoBit) {
  const std::string output = ExpectNoChange(
      {"--max_restarts=20", "--pserver_data_dir=" + Path("data"), "--durability=logged"},
      {{"step=20 ", "tandem-trainer", SIGSTOP},
       {"step=60 ", "tandem-pserver", SIGSTOP},
       {"step=100 ", "tandem-pserver", SIGSTOP},
       {"step=140 ", "tandem-trainer", SIGSTOP, 0}},
      {"--step_timeout_ms=3000"});
  for (const char* who : {"trainer 0", "trainer 1", "pserver 0", "pserver 1"}) {
    EXPECT_THAT(output, testing::ContainsRegex(std::string(who) + " does not reply"));
  }
}

// After the user stops a drained pserver, the job and all monitoring commands continue to work.
TEST_F(RestartsTest, APserverThatWasDrainedMayBeStopped) {
  const auto job = StartJob(
      "drained",
      {"--servers=2", "--workers=2", "--durability=logged", "--pserver_data_dir=" + Path("data")},
      {"--epochs=1000"});
  ASSERT_TRUE(job->WaitForText("step=50 ")) << job->Output();
  EXPECT_THAT(Tandem({"drain", "--pserver=1"}, "drained"), HasSubstr("it can be stopped"));
  const pid_t drained = PserverOf("drained", 1);
  ASSERT_NE(drained, 0);
  EXPECT_THAT(Tandem({"status"}, "drained"), Not(HasSubstr("gone")));
  kill(drained, SIGTERM);
  ASSERT_TRUE(WaitUntil(
      [&] { return Tandem({"events"}, "drained").find("drained") != std::string::npos; }));
  const int before = StepOf(*job);
  EXPECT_TRUE(WaitUntil([&] { return StepOf(*job) > before + 50 || job->Ended(); }));
  EXPECT_FALSE(job->Ended()) << job->Output();
  const std::string status = Tandem({"status"}, "drained");
  EXPECT_THAT(status, HasSubstr("drained, gone"));
  EXPECT_THAT(status, Not(HasSubstr("problem")));
  EXPECT_THAT(Tandem({"save"}, "drained"), HasSubstr("pserver 1: was drained and has ended"));
  EXPECT_THAT(Tandem({"rebalance"}, "drained"), Not(HasSubstr("pserver 1")));
  job->Signal(SIGTERM);
  EXPECT_EQ(job->Wait(), 128 + SIGTERM) << job->Output();
}

// The server with the tables was drained. The trainers end normally and report the rows of the
// remaining servers.
TEST_F(RestartsTest, TheJobEndsWellWithoutTheServerOfItsTablesThatWasDrained) {
  std::string text;
  for (int word = 0; word < 3000; ++word) {
    const int which = (word * word + word / 7) % 90;
    text += {static_cast<char>('a' + which % 10), static_cast<char>('k' + which / 10)};
    text += word % 10 == 9 ? ".\n" : " ";
  }
  Write("text", text);
  Write("job.pbtxt", kWordJob);
  const auto job = StartJob(
      "words",
      {"--servers=2", "--workers=2", "--durability=logged", "--pserver_data_dir=" + Path("data")},
      {"--steps_max=6000", "--epochs=100000"});
  ASSERT_TRUE(job->WaitForText("step=")) << job->Output();
  EXPECT_THAT(Tandem({"drain", "--pserver=1"}, "words"), HasSubstr("it can be stopped"));
  const pid_t drained = PserverOf("words", 1);
  ASSERT_NE(drained, 0);
  kill(drained, SIGKILL);
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("words").steps, 6000);
  EXPECT_GT(ResultOf("words").counts["ps.rows"], 0);
}

TEST_F(RestartsTest, WithoutItTheJobEnds) {
  const auto job =
      StartJob("ends", {"--servers=1", "--workers=2", "--grace_s=1"}, {"--epochs=1000"});
  ASSERT_TRUE(job->WaitForText("step=50 ")) << job->Output();
  kill(TrainerOf(*job, 0), SIGKILL);
  EXPECT_EQ(job->Wait(), 128 + SIGKILL);
}

}  // namespace
}  // namespace tandem
