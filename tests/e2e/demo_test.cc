// Tests `tandem demo` as a new user runs it, but with fewer epochs. The demo kills a pserver in the
// middle, and the result must not change.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using testing::Not;

class DemoTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    if (!std::filesystem::exists(kFashionMnist)) {
      GTEST_SKIP() << "no data (Debian's package dataset-fashion-mnist)";
    }
  }
  std::vector<std::string> Args(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"demo", "--epochs=1", "--dir=" + Path("demo")};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
};

TEST_F(DemoTest, ShowsThatAKilledServerCostsNothing) {
  ChildProcess demo("tandem", Args({}), {}, Path("out"));
  EXPECT_EQ(demo.Wait(), 0) << demo.Output();
  const std::string screen = demo.Output();
  for (const char* line :
       {"[1/2] 2 pservers + 2 trainers, sync, mutual TLS",
        "status page: http://127.0.0.1:", "! pserver 1 (pid ", "killed with kill -9 at version ",
        "! recovered in ", ": 0 updates lost", "same parameters, bit for bit: yes\n",
        "same result as without the kill: yes (sha256 "}) {
    EXPECT_THAT(screen, HasSubstr(line));
  }
  // Standard output is not a terminal, so the demo must not print escape sequences.
  EXPECT_THAT(screen, Not(HasSubstr("\033[")));
  // The demo removes keys and secrets when the job ends.
  EXPECT_FALSE(std::filesystem::exists(Path("demo/pserver/log/tls")));
  EXPECT_FALSE(std::filesystem::exists(Path("demo/pserver/log/job.secret")));
}

TEST_F(DemoTest, CountsAsJson) {
  ChildProcess demo("tandem", Args({"--json"}), {}, Path("out"));
  EXPECT_EQ(demo.Wait(), 0) << demo.Output();
  const std::string all = demo.Output();
  const auto json = nlohmann::json::parse(all.substr(all.rfind("{\"accuracy_pserver\"")), nullptr,
                                          /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << all;
  EXPECT_TRUE(json["same_bits"]);
  ASSERT_TRUE(json["kill"].is_object()) << all;
  EXPECT_EQ(json["kill"]["pserver"], 1);
  EXPECT_GT(json["kill"]["version"], 100);
  EXPECT_EQ(json["kill"]["updates"], 469);
  EXPECT_EQ(json["kill"]["lost"], 0);
  EXPECT_EQ(json["kill"]["doubled"], 0);
  EXPECT_GT(json["kill"]["back_seconds"], 0);
}

// The demo draws progress bars at fixed times, thus also in the middle of steps. A bar must show
// the loss of the last step that fetched the loss, not 0.
TEST_F(DemoTest, OnATerminalTheBarTellsTheLoss) {
  const char* bin = std::getenv("TANDEM_BIN_DIR");
  const std::string command = "TERM=xterm script -qec '" +
                              std::string(bin != nullptr ? bin : "build/bin") +
                              "/tandem demo --no_kill --epochs=1' " + Path("tty") + " > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const std::string screen = ReadWholeFile(Path("tty"));
  size_t bars = 0;
  for (size_t at = 0; (at = screen.find("loss=", at)) != screen.npos; ++at) ++bars;
  EXPECT_GT(bars, 1u);
  EXPECT_THAT(screen, Not(HasSubstr("loss=0.0000")));
}

TEST_F(DemoTest, StoppedByHandItLeavesNothing) {
  std::filesystem::create_directory(Path("tmp"));
  ChildProcess demo("tandem", {"demo", "--epochs=1000"}, {{"TMPDIR", Path("tmp")}}, Path("out"));
  ASSERT_TRUE(demo.WaitForText("step=")) << demo.Output();
  demo.Signal(SIGINT);
  EXPECT_EQ(demo.Wait(), 128 + SIGINT) << demo.Output();
  EXPECT_THAT(demo.Output(), HasSubstr("tandem demo: stopped\n"));
  EXPECT_TRUE(std::filesystem::is_empty(Path("tmp")));
}

// If a server restarts without the data that it had written, the demo detects this and fails.
TEST_F(DemoTest, AServerThatForgetsIsNoSuccess) {
  const char* bin = std::getenv("TANDEM_BIN_DIR");
  const std::string program = std::filesystem::absolute(
      std::string(bin != nullptr ? bin : "build/bin") + "/tandem-pserver");
  const std::string forgetful =
      Write("forgetful", "#!/bin/sh\nrm -rf " + Path("demo/pserver/shards/pserver-1") + "\nexec " +
                             program + " \"$@\"\n");
  std::filesystem::permissions(forgetful, std::filesystem::perms::owner_all);
  ChildProcess demo("tandem", Args({"--pserver_bin=" + forgetful}), {}, Path("out"));
  EXPECT_NE(demo.Wait(), 0) << demo.Output();
  EXPECT_THAT(demo.Output(), Not(HasSubstr("same result as without the kill: yes")));
}

}  // namespace
}  // namespace tandem
