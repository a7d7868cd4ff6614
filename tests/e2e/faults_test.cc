// Tests faults in running jobs: missing servers, killed trainers, connections of other programs.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kCollective = {"--mode=collective", "--nproc=2"};
const std::vector<std::string> kPserver = {"--servers=1", "--workers=2"};
const std::vector<std::string> kEndless = {"--epochs=1000", "--step_timeout_ms=3000",
                                           "--log_every_steps=1"};

using FaultsTest = JobTest;

TEST_F(FaultsTest, AnAbsentPserverIsWaitedForUntilTheDeadline) {
  const std::string server = "127.0.0.1:" + std::to_string(FreePort());
  ChildProcess trainer(
      "tandem-trainer",
      {"--job_file=" + job_, "--mode=pserver", "--pservers=" + server, "--start_timeout_ms=2000"},
      {}, Path("out"));
  EXPECT_EQ(trainer.Wait(), 69);
  EXPECT_THAT(trainer.Output(), HasSubstr(server));
  EXPECT_THAT(trainer.Output(), HasSubstr("waiting for"));
}

TEST_F(FaultsTest, WhoWaitsForTheOthersStopsWhenTold) {
  const std::string secret = Write("secret", "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  const std::string nobody = "127.0.0.1:" + std::to_string(FreePort());
  for (const std::string mode : {"pserver", "collective"}) {
    const std::string others = mode == "pserver" ? "--pservers=" : "--rendezvous=";
    ChildProcess trainer(
        "tandem-trainer",
        {"--job_file=" + job_, "--mode=" + mode, others + nobody, "--start_timeout_ms=200000"},
        {{"TANDEM_RANK", "1"}, {"TANDEM_SIZE", "2"}, {"TANDEM_SECRET_FILE", secret}}, Path(mode));
    ASSERT_TRUE(trainer.WaitForText("waiting for")) << trainer.Output();
    trainer.Signal(SIGTERM);
    EXPECT_EQ(trainer.Wait(), 200) << trainer.Output();
    EXPECT_THAT(trainer.Output(), testing::ContainsRegex("stopped on request|was stopped"));
  }
}

// Kills one of two trainers with SIGKILL. tandemrun must name this trainer and end all processes.
TEST_F(FaultsTest, AKilledTrainerIsNamedAndNobodyIsLeft) {
  for (const auto& launch : {kPserver, kCollective}) {
    const auto job = StartJob("killed", launch, kEndless);
    ASSERT_TRUE(job->WaitForText("step=3 ")) << job->Output();
    std::vector<pid_t> trainers = JobTest::ChildrenOf(job->pid(), "tandem-trainer");
    const std::vector<pid_t> servers = JobTest::ChildrenOf(job->pid(), "tandem-pserver");
    ASSERT_EQ(trainers.size(), 2u);
    kill(trainers[1], SIGKILL);
    EXPECT_EQ(job->Wait(20), 128 + SIGKILL);
    EXPECT_THAT(job->Output(), HasSubstr("first failure  trainer"));
    EXPECT_THAT(job->Output(), HasSubstr("killed by SIGKILL"));
    trainers.insert(trainers.end(), servers.begin(), servers.end());
    for (const pid_t pid : trainers) {
      EXPECT_TRUE(WaitUntil([pid] { return kill(pid, 0) != 0; }, 5)) << pid << " is left";
    }
  }
}

// Two trainers run without a launcher. The surviving trainer must detect the loss of the other
// trainer.
TEST_F(FaultsTest, TheSurvivorNamesTheLostTrainer) {
  ChildProcess server("tandem-pserver", {"--listen=127.0.0.1:0"}, {}, Path("server"));
  ASSERT_TRUE(server.WaitForText("\n"));
  const std::string text = server.Output();
  const size_t at = text.find("listening on ") + 13;
  const std::string servers = text.substr(at, text.find('\n', at) - at);
  const std::string rendezvous = "127.0.0.1:" + std::to_string(FreePort());
  const std::string secret = Write("secret", "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  for (const std::string mode : {"pserver", "collective"}) {
    std::vector<std::string> args = {"--job_file=" + job_, "--mode=" + mode, "--log_format=plain"};
    args.insert(args.end(), {"--epochs=1000", "--log_every_steps=1"});
    args.push_back(mode == "pserver" ? "--pservers=" + servers : "--rendezvous=" + rendezvous);
    args.push_back(mode == "pserver" ? "--step_timeout_ms=3000" : "--step_timeout_ms=120000");
    const auto env = [&](const char* rank) {
      std::map<std::string, std::string> out = {{"TANDEM_RANK", rank}, {"TANDEM_SIZE", "2"}};
      if (mode == "collective") out["TANDEM_SECRET_FILE"] = secret;
      return out;
    };
    ChildProcess zero("tandem-trainer", args, env("0"), Path("zero"));
    ChildProcess one("tandem-trainer", args, env("1"), Path("one"));
    ASSERT_TRUE(zero.WaitForText("step=3 ")) << zero.Output() << one.Output();
    const Time begin = SteadyNow();
    one.Signal(SIGKILL);
    EXPECT_EQ(zero.Wait(), 200) << zero.Output();
    // The limit covers both modes: collective mode detects the closed connection at once; in
    // pserver mode, the servers first wait for the trainer to return.
    EXPECT_LT(Seconds(SteadyNow() - begin), 60) << mode;
    const std::string output = zero.Output();
    EXPECT_THAT(output.substr(output.rfind("tandem-trainer:")),
                HasSubstr(mode == "pserver" ? "trainer 1" : "rank 1"));
  }
}

// Another program sends garbage to the rendezvous port while rank 1 is missing.
TEST_F(FaultsTest, StrangersAtTheRendezvousChangeNothing) {
  const std::string secret = Write("secret", "0123456789abcdef0123456789abcdef\n");
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  const int port = FreePort();
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const std::vector<std::string> args = {"--job_file=" + job_, "--mode=collective",
                                         "--steps_max=60", "--rendezvous=" + address};
  const auto env = [&](const char* rank) {
    return std::map<std::string, std::string>{
        {"TANDEM_RANK", rank}, {"TANDEM_SIZE", "2"}, {"TANDEM_SECRET_FILE", secret}};
  };
  ChildProcess zero("tandem-trainer", args, env("0"), Path("zero"));
  // The rendezvous port is open while rank 0 waits for rank 1.
  EXPECT_TRUE(WaitUntil([port] { return SendBytes(port, std::string(5000, '\xA5')); }));
  EXPECT_TRUE(SendBytes(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ChildProcess one("tandem-trainer", args, env("1"), Path("one"));
  EXPECT_EQ(zero.Wait(), 0) << zero.Output();
  EXPECT_EQ(one.Wait(), 0) << one.Output();
}

TEST_F(FaultsTest, StrangersAtThePserversDoorChangeNothing) {
  const std::vector<std::string> steps = {"--steps_max=100"};
  const std::string want = RunJob("quiet", kPserver, steps).result.params_sha256;
  const int port = FreePort();
  const auto job =
      StartJob("noisy", {"--servers=127.0.0.1:" + std::to_string(port), "--workers=2"}, steps);
  ASSERT_TRUE(job->WaitForText("step=10 ")) << job->Output();
  EXPECT_TRUE(SendBytes(port, std::string(5000, '\xA5')));
  EXPECT_TRUE(SendBytes(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  EXPECT_EQ(ResultOf("noisy").params_sha256, want);
}

TEST_F(FaultsTest, SigtermLeavesACheckpoint) {
  std::vector<std::string> args = kEndless;
  args.push_back("--checkpoint.dir=" + Path("ck"));
  const auto job = StartJob("stopped", kCollective, args);
  ASSERT_TRUE(job->WaitForText("step=3 ")) << job->Output();
  job->Signal(SIGTERM);
  EXPECT_EQ(job->Wait(), 128 + SIGTERM);
  EXPECT_FALSE(std::filesystem::is_empty(Path("ck")));
  // Rank 0 reports the last step. The output must not call the requested stop an error.
  EXPECT_THAT(job->Output(), HasSubstr("tandem-trainer: training stopped on request after step "));
  EXPECT_THAT(job->Output(), HasSubstr("; the checkpoint is in " + Path("ck") + " [TD7007]"));
  EXPECT_THAT(job->Output(), testing::Not(HasSubstr("error")));
}

}  // namespace
}  // namespace tandem
