// Command lines of tandemrun with fields of the job, command lines of the examples, and the output
// before the first process starts and after the last process ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/error_text.h"
#include "common/os/ports.h"
#include "deploy/launch/failure_report.h"
#include "deploy/launch/job_files.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/options/launch_options.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;

class LaunchLineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tandem_launch_line_XXXXXX";
    dir_ = mkdtemp(name);
    std::ofstream(dir_ + "/job.pbtxt") << "name: \"j1\"\n";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Parses `line`, whose arguments are separated by spaces. Each @ is replaced by the test's
  // directory.
  StatusOr<deploy::LaunchOptions> Options(std::string line) {
    for (size_t at = 0; (at = line.find('@', at)) != std::string::npos;) line.replace(at, 1, dir_);
    TD_ASSIGN_OR_RETURN(const deploy::ParsedArgs args,
                        deploy::ParseLaunchArgs(absl::StrSplit(line, ' ', absl::SkipEmpty())));
    return deploy::MakeLaunchOptions(args, "/opt/tandem/bin");
  }

  std::string dir_;
};

TEST_F(LaunchLineTest, FieldsOfTheJobGoToTheTrainer) {
  const auto options = Options(
      "--epochs=3 --mode=local @/job.pbtxt --data.dir=here --batch-size=8 -- --log_format=json");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->mode, deploy::LaunchMode::kLocal);
  EXPECT_THAT(options->workers.args, testing::ElementsAre("--epochs=3", "--data.dir=here",
                                                          "--batch_size=8", "--log_format=json"));
}

// The launcher and the trainer must accept each command in the examples.
TEST_F(LaunchLineTest, CommandsOfTheExamples) {
  const std::string folder = std::string(std::getenv("TANDEM_SOURCE_DIR")) + "/deploy/examples";
  const std::string trainer = std::string(std::getenv("TANDEM_BIN_DIR")) + "/tandem-trainer";
  std::filesystem::copy(folder, dir_ + "/examples", std::filesystem::copy_options::recursive);
  std::ofstream flowers(dir_ + "/examples/iris.csv");  // the data of table.pbtxt
  flowers << "width,height,species\n";
  for (int i = 0; i < 60; ++i) flowers << i % 7 << "," << i % 5 << ",s" << i % 3 << "\n";
  flowers.close();
  const std::regex shown(R"(^# +tandemrun +(.*))");
  int commands = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(dir_ + "/examples")) {
    std::ifstream text(file.path());
    std::smatch found;
    for (std::string line; std::getline(text, line);) {
      if (!std::regex_search(line, found, shown)) continue;
      ++commands;
      SCOPED_TRACE(file.path().filename().string() + ": " + line);
      std::string command = found[1];
      const size_t job = command.find(file.path().filename().string());
      ASSERT_NE(job, std::string::npos) << "the command is of another file";
      const auto options = Options(command.insert(job, "@/examples/"));
      ASSERT_TRUE(options.ok()) << options.status();
      const std::string check = trainer + " --check --job_file=" + options->job_file + " " +
                                absl::StrJoin(options->workers.args, " ") + " >" + dir_ +
                                "/said 2>&1";
      EXPECT_EQ(std::system(check.c_str()), 0) << check << std::ifstream(dir_ + "/said").rdbuf();
    }
  }
  EXPECT_GT(commands, 8);
}

TEST_F(LaunchLineTest, ATakenStatusPortIsNamedAsTheUserGaveIt) {
  const auto port = FreePorts("127.0.0.1", 2);
  ASSERT_TRUE(port.ok()) << port.status();
  const auto taken = BindPort("127.0.0.1", *port + 1);
  ASSERT_TRUE(taken.ok() && listen(taken->get(), 1) == 0);
  const auto options = Options(absl::StrFormat(
      "--servers=1 --workers=1 --log_dir=@/log --status_port=%d @/job.pbtxt", *port));
  ASSERT_TRUE(options.ok()) << options.status();
  const auto plan = deploy::MakeLaunchPlan(*options, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Status status = deploy::PrepareFiles(*plan).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrFormat("--status_port: 127.0.0.1:%d, the port of the status page "
                                        "of pserver 0, is in use [TD1012]",
                                        *port + 1)));
}

TEST_F(LaunchLineTest, ATakenPortForRedisClientsIsNamed) {
  const auto port = FreePorts("127.0.0.1", 2);
  ASSERT_TRUE(port.ok()) << port.status();
  const auto taken = BindPort("127.0.0.1", *port + 1);
  ASSERT_TRUE(taken.ok() && listen(taken->get(), 1) == 0);
  const auto options =
      Options(absl::StrFormat("--servers=2 --workers=1 --replicas=1 --pserver_data_dir=@/state "
                              "--log_dir=@/log --resp_port=%d @/job.pbtxt",
                              *port));
  ASSERT_TRUE(options.ok()) << options.status();
  const auto plan = deploy::MakeLaunchPlan(*options, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Status status = deploy::PrepareFiles(*plan).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrFormat("--resp_port: 127.0.0.1:%d, the port of replica 0 of "
                                        "pserver 1 for Redis clients, is in use [TD1012]",
                                        *port + 1)));
}

TEST(FailureReport, ShowsTheHintOfTheProcessThatFailed) {
  deploy::Failure failure{.role = "trainer", .log_file = "log"};
  failure.exit.code = kExitUsage;
  failure.last_lines = {"hint: an older one", "tandem-trainer: error: x",
                        "hint: ./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda", "bye"};
  const std::string text = deploy::FailureText("j", failure, {}, "error.json");
  EXPECT_THAT(text, HasSubstr("| hint: ./deploy/build.sh -DTANDEM_CUDA=ON --target tandem_cuda\n"));
  EXPECT_THAT(text, Not(HasSubstr("an older one")));
  failure.last_lines = {"tandem-trainer: error: x"};
  EXPECT_THAT(deploy::FailureText("j", failure, {}, "error.json"),
              HasSubstr("\nhint: run tandem explain 2; read the complete output in log"));
}

}  // namespace
}  // namespace tandem::deploy
