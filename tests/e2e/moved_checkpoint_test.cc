// Slices of dense parameters move between the pservers of a job, and to a new pserver, while the
// job writes checkpoints. A job on any number of servers can resume from a later checkpoint, and
// must have the bits of an undisturbed job.
#include <signal.h>

#include <filesystem>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Args = std::vector<std::string>;
using testing::HasSubstr;
using testing::Not;

constexpr int kEvery = 20;

class MovedCheckpointTest : public JobTest {
 protected:
  Args Flags(const std::string& store, int steps) const {
    return {"--checkpoint.dir=" + Path(store), "--checkpoint.every_steps=" + std::to_string(kEvery),
            "--optimizer.type=adam", "--epochs=1000", "--steps_max=" + std::to_string(steps)};
  }
  // Returns the step of the newest complete checkpoint; 0: there is no such checkpoint.
  int Saved(const std::string& store) const {
    int newest = 0;
    if (!fs::exists(Path(store))) return 0;
    for (const auto& entry : fs::directory_iterator(Path(store))) {
      int step = 0;
      const std::string name = entry.path().filename();
      if (!name.starts_with("step-") || !absl::SimpleAtoi(name.substr(5), &step)) continue;
      // Holds the error of fs::exists if the trainer removes an old checkpoint during this loop.
      // The loop ignores the error.
      std::error_code gone;
      if (fs::exists(entry.path() / "manifest.pbtxt", gone)) newest = std::max(newest, step);
    }
    return newest;
  }
  // Waits for two more checkpoints. The second of them began after this call.
  void AwaitNextCheckpoints(const ChildProcess& job) const {
    const int enough = Saved("moved") + 2 * kEvery;
    ASSERT_TRUE(WaitUntil([&] { return Saved("moved") >= enough; })) << job.Output();
  }
  void Tandem(const Args& args, const std::string& said) {
    ChildProcess command("tandem", args, {}, Path("tandem-" + std::to_string(commands_++)));
    EXPECT_EQ(command.Wait(), 0) << command.Output();
    EXPECT_THAT(command.Output(), HasSubstr(said));
    EXPECT_THAT(command.Output(), Not(HasSubstr(", 0 slices")));
  }
  // Copies the checkpoints of the run `from` and resumes from them. If `from` is empty, begins a
  // new run.
  JobRun Run(const std::string& store, const std::string& from, const Args& launch, int steps) {
    if (!from.empty()) fs::copy(Path(from), Path(store), fs::copy_options::recursive);
    return RunJob(store, launch, Flags(store, steps));
  }

  int commands_ = 0;
};

TEST_F(MovedCheckpointTest, AnyNumberOfServersGoesOnFromIt) {
  const auto job = StartJob(
      "moved",
      {"--servers=2", "--workers=2", "--durability=logged", "--pserver_data_dir=" + Path("data")},
      Flags("moved", 1000000));
  ASSERT_TRUE(WaitUntil([&] { return Saved("moved") > 0; })) << job->Output();
  ChildProcess third("tandem-pserver",
                     {"--listen=127.0.0.1:0", "--index=2", "--job=e2e",
                      "--data_dir=" + Path("data-2"), "--durability=logged"},
                     {{"TANDEM_SECRET_FILE", Path("moved.log/job.secret")}}, Path("third"));
  const std::string said = "listening on ";
  ASSERT_TRUE(third.WaitForText(said, 60)) << third.Output();
  const std::string output = third.Output();
  const size_t at = output.find(said) + said.size();
  const std::string added = output.substr(at, output.find_first_of(" ,;\n", at) - at);
  Tandem({"rebalance", Path("moved.log"), "--add=" + added}, "pserver 2 (");
  AwaitNextCheckpoints(*job);
  job->Signal(SIGTERM);  // on SIGTERM the trainers write a checkpoint and end
  job->Wait();
  const int saved = Saved("moved");
  const int steps = saved + 2 * kEvery;
  const std::string undisturbed =
      Run("calm", "", {"--servers=2", "--workers=2"}, steps).result.params_sha256;
  for (const char* const servers : {"1", "3"}) {
    const std::string name = std::string("with-") + servers;
    const JobRun run =
        Run(name, "moved", {std::string("--servers=") + servers, "--workers=2"}, steps);
    EXPECT_EQ(run.result.params_sha256, undisturbed) << run.output;
    EXPECT_THAT(run.output, HasSubstr("resumed at step " + std::to_string(saved)));
  }
}

}  // namespace
}  // namespace tandem
