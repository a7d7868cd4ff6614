// auto: tries settings on this machine, prints the choice, stores it and uses it. The best settings
// depend on the machine, but the results of these tests must not.
#include <filesystem>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/knobs/knob_programs.h"

namespace tandem::trainer {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class AutoTest : public KnobProgramTest {
 protected:
  // Returns the flags for the choice that the job stored beside its checkpoints in `dir`.
  std::vector<std::string> Kept(const std::string& dir) const {
    std::vector<std::string> flags;
    const std::string text = ReadWholeFile(Path(dir) + "/auto_choice");
    EXPECT_NE(text, "");
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    for (const std::string& line : lines) {
      if (line != "nothing") flags.push_back("--" + line);
    }
    return flags;
  }
  // Runs the job with `args` and auto. After that, runs the job without auto, with `args` and the
  // flags that auto chose. Expects the same bits. Returns the first run.
  JobRun ExpectSameAsChosen(const std::vector<std::string>& launch, std::vector<std::string> args) {
    auto with = args;
    with.insert(with.end(), {"--auto=true", "--checkpoint.dir=" + Path("kept")});
    const JobRun tuned = RunJob("tuned", launch, with);
    const auto chosen = Kept("kept");
    args.insert(args.end(), chosen.begin(), chosen.end());
    EXPECT_EQ(RunJob("plain", launch, args).result.params_sha256, tuned.result.params_sha256);
    return tuned;
  }
};

TEST_F(AutoTest, TrainsWithWhatItChose) {
  const JobRun run = ExpectSameAsChosen(
      {"--mode=local"}, {"--steps_max=5", "--threads=2", "--strategy_out=" + Path("best.pbtxt")});
  EXPECT_THAT(run.output, HasSubstr("auto: a step takes"));
  EXPECT_THAT(run.output, ContainsRegex("auto: precision: amp=true (takes|was not measured)"));
  // Auto does not try threads, because a flag sets them.
  EXPECT_THAT(run.output, Not(HasSubstr("auto: threads")));
  EXPECT_EQ(run.result.steps, 5);

  // The file with the choice is a valid strategy.
  const std::string lint = Path("lint.out");
  ChildProcess check("tandem", {"lint", "--type=strategy", Path("best.pbtxt")}, {}, lint);
  EXPECT_EQ(check.Wait(), 0) << ReadWholeFile(lint);
  EXPECT_THAT(ReadWholeFile(Path("best.pbtxt")), Not(HasSubstr("auto: true")));
}

// All ranks must make the same choice, because they must build the same program.
TEST_F(AutoTest, RanksChooseTogether) {
  const JobRun run = ExpectSameAsChosen({"--mode=collective", "--nproc=2"}, {"--steps_max=5"});
  EXPECT_THAT(run.output, ContainsRegex("auto: gradient buckets: fuse_grad_size_in_MB=1"));
}

// Over TCP auto can choose between several allreduce algorithms.
TEST_F(AutoTest, OverTcpAlgorithmsAreTried) {
  const JobRun run =
      ExpectSameAsChosen({"--mode=collective", "--nproc=2"},
                         {"--steps_max=5", "--collective_transport=Tcp", "--amp=false",
                          "--fuse_grad_size_in_MB=8", "--fuse_all_optimizer_ops=true"});
  EXPECT_THAT(run.output, ContainsRegex("auto: allreduce algorithms: allreduce_choice=ByModel"));
}

TEST_F(AutoTest, AJobThatGoesOnHasTheChoiceItBeganWith) {
  const std::vector<std::string> args = {"--auto=true", "--checkpoint.dir=" + Path("kept"),
                                         "--amp=false"};
  auto first = args, second = args;
  first.push_back("--steps_max=2");
  second.push_back("--steps_max=4");
  RunJob("first", {"--mode=local"}, first);
  Write("kept/auto_choice", "enable_auto_fusion=true\nthreads=1\n");
  const JobRun run = RunJob("second", {"--mode=local"}, second);
  EXPECT_THAT(run.output,
              ContainsRegex("auto: settings read from .*auto_choice: enable_auto_fusion=true"));
  EXPECT_THAT(run.output, HasSubstr("threads: 1"));
  EXPECT_THAT(run.output, HasSubstr("chosen by auto"));
  EXPECT_EQ(run.result.steps, 2);

  Write("kept/auto_choice", "threads\n");
  const auto damaged = StartJob("damaged", {"--mode=local"}, second);
  EXPECT_NE(damaged->Wait(), 0);
  EXPECT_THAT(damaged->Output(), HasSubstr("\"threads\" is not a setting"));
}

// In pserver mode, each trainer measures without the servers. The servers receive no message from
// these trials.
TEST_F(AutoTest, ServersSeeNoTrial) {
  const std::vector<std::string> launch = {"--mode=pserver", "--servers=1", "--workers=2"};
  const std::vector<std::string> args = {"--steps_max=4", "--threads=1"};
  auto tuned = args;
  // The flags set all settings that auto could choose, so that the steps with and without auto are
  // identical.
  tuned.insert(tuned.end(), {"--auto=true", "--use_mkldnn=true", "--fuse_elewise_add_act_ops=false",
                             "--fuse_bn_act_ops=false", "--enable_auto_fusion=false"});
  const JobRun run = RunJob("tuned", launch, tuned);
  EXPECT_THAT(run.output, HasSubstr("auto: no setting is changed"));
  EXPECT_EQ(run.result.params_sha256, RunJob("plain", launch, args).result.params_sha256);
}

TEST_F(AutoTest, NotWhereBitsArePromised) {
  const auto job = StartJob("both", {"--mode=local"}, {"--auto=true", "--deterministic=true"});
  EXPECT_EQ(job->Wait(), 2);
  EXPECT_THAT(job->Output(), HasSubstr("differ between machines"));
}

}  // namespace
}  // namespace tandem::trainer
