// Tests `tandem scale`: the numbers of workers and of pservers change while the job trains. An
// elastic deterministic job must have the bits of an undisturbed job. Pservers that start and end
// must apply each acknowledged push exactly once.
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "pserver/client/client.h"
#include "tests/support/process_test_util.h"
#include "tests/support/push_ledger.h"
#include "tests/support/push_ledger_check.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

class ScaleTest : public JobTest {
 protected:
  std::unique_ptr<ChildProcess> Begin(const std::string& job, const Args& args) {
    Args all = {"scale", Path(job + ".log")};
    all.insert(all.end(), args.begin(), args.end());
    const std::string out = Path("scale-" + std::to_string(commands_++));
    return std::make_unique<ChildProcess>("tandem", all, std::map<std::string, std::string>{}, out);
  }
  // Runs the command, which must end with `code`. Returns its output.
  std::string Scale(const std::string& job, const Args& args, int code = 0) {
    const auto command = Begin(job, args);
    EXPECT_EQ(command->Wait(100), code) << command->Output();
    return command->Output();
  }
  std::string Log(const std::string& job, const std::string& file) const {
    return ReadWholeFile(Path(job + ".log/" + file));
  }

  int commands_ = 0;
};

TEST_F(ScaleTest, WorkersComeAndGoAndChangeNoBit) {
  const Args args = {"--steps_max=1500", "--epochs=100", "--log_every_steps=5",
                     "--deterministic=true"};
  const JobRun quiet = RunJob("quiet", {"--mode=collective", "--nproc=2"}, args);
  const auto job = StartJob("scaled", {"--mode=collective", "--nproc=1:2"}, args);
  ASSERT_TRUE(job->WaitForText("step=50 ")) << job->Output();
  EXPECT_THAT(Scale("scaled", {}), HasSubstr("workers  2    2        1 to 2: --workers=N"));
  EXPECT_THAT(Scale("scaled", {"--workers=3"}, 2), HasSubstr("the job allows 1 to 2 [TD1004]"));
  EXPECT_THAT(Scale("scaled", {"--servers=2"}, 78), HasSubstr("[TD7004]"));
  EXPECT_THAT(Scale("scaled", {"--workers=1"}), HasSubstr("workers 2 → 1, took "));
  EXPECT_EQ(TrainerOf(*job, 1), 0);
  EXPECT_NE(TrainerOf(*job, 0), 0);
  EXPECT_THAT(Scale("scaled", {}), HasSubstr("workers  1    1 "));
  ASSERT_TRUE(job->WaitForText("1 rank continues (world 2: trainer 0)")) << job->Output();
  // Pauses the only rank, so that the job cannot end before the new rank has joined.
  const pid_t only = TrainerOf(*job, 0);
  kill(only, SIGSTOP);
  const auto growing = Begin("scaled", {"--workers=2"});
  EXPECT_TRUE(WaitUntil([&] { return Log("scaled", "world").starts_with("version 3 "); }));
  kill(only, SIGCONT);
  EXPECT_EQ(growing->Wait(100), 0) << growing->Output();
  EXPECT_THAT(growing->Output(), HasSubstr("workers 1 → 2, took "));
  ASSERT_TRUE(job->WaitForText("trainer 1 has joined; 2 ranks continue")) << job->Output();
  EXPECT_THAT(Scale("scaled", {"--workers=1"}), HasSubstr("workers 2 → 1, took "));
  EXPECT_EQ(job->Wait(), 0) << job->Output();
  const JobResult result = ResultOf("scaled");
  EXPECT_EQ(result.steps, 1500);
  EXPECT_EQ(result.params_sha256, quiet.result.params_sha256) << job->Output();
  EXPECT_THAT(Log("scaled", "events.jsonl"), HasSubstr("scaled down: 1 of 2 ranks continue"));
}

// The processes of these jobs only wait. A refusal starts and ends no process.
TEST_F(ScaleTest, ARefusalNamesItsReason) {
  const std::string script = Write("wait.sh", "#!/bin/sh\nexec sleep 1000\n");
  ASSERT_EQ(chmod(script.c_str(), 0700), 0);
  const std::string data = "--pserver_data_dir=" + Path("data");
  struct Case {
    std::string name;
    Args launch, scale;
    int code;
    std::string said;
  };
  const std::vector<Case> cases = {
      {"ranks", {"--mode=collective", "--nproc=2"}, {"--workers=1"}, 78, "is not elastic"},
      {"none", {"--mode=collective", "--nproc=1:2"}, {"--servers=2"}, 78, "has no pservers"},
      {"least", {"--mode=collective", "--nproc=2:3"}, {"--workers=1"}, 2, "2 to 3 [TD1004]"},
      {"memory", {"--servers=1", "--workers=1"}, {"--servers=2"}, 78, "no durable state [TD7017]"},
      {"forgets",
       {"--servers=1", "--workers=1", "--durability=none", data + "-0"},
       {"--servers=2"},
       78,
       "no durable state [TD7017]"},
      {"first",
       {"--servers=2", "--workers=1", "--durability=logged", data + "-1"},
       {"--servers=1"},
       2,
       "began with 2 pservers"},
      {"standbys",
       {"--servers=1", "--workers=1", "--standbys=1", data + "-2"},
       {"--servers=2"},
       2,
       "standbys or replicas [TD1109]"},
      {"hosts",
       {"--servers=127.0.0.1:7001,192.0.2.1:7001", "--workers=127.0.0.1", "--durability=logged",
        "--insecure_allow_network", "--secret_file=" + Write("secret", std::string(64, 'a')),
        data + "-3"},
       {"--servers=3"},
       2,
       "several hosts [TD1109]"}};
  ASSERT_EQ(chmod(Path("secret").c_str(), 0600), 0);
  for (const Case& c : cases) {
    Args launch = c.launch;
    launch.push_back("--trainer_bin=" + script);
    launch.push_back("--pserver_bin=" + script);
    const auto job = StartJob(c.name, launch, {});
    ASSERT_TRUE(WaitUntil([&] { return job->Ended() || !Log(c.name, "scale.json").empty(); }));
    ASSERT_FALSE(job->Ended()) << c.name << job->Output();
    EXPECT_THAT(Scale(c.name, c.scale, c.code), HasSubstr(c.said)) << c.name;
    EXPECT_THAT(Log(c.name, "events.jsonl"), testing::Not(HasSubstr("scaling"))) << c.name;
  }
}

// A job whose new pserver never replies does not get it within the time limit. The command says so,
// and another command may not change the job at the same time.
TEST_F(ScaleTest, APserverThatDoesNotReplyIsNoSuccess) {
  const std::string script = Write("wait.sh", "#!/bin/sh\nexec sleep 1000\n");
  ASSERT_EQ(chmod(script.c_str(), 0700), 0);
  const auto job = StartJob(
      "waits",
      {"--servers=1", "--workers=1", "--durability=logged", "--pserver_data_dir=" + Path("data"),
       "--trainer_bin=" + script, "--pserver_bin=" + script},
      {});
  ASSERT_TRUE(WaitUntil([&] { return !Log("waits", "scale.json").empty(); })) << job->Output();
  const auto first = Begin("waits", {"--servers=2", "--wait_s=3"});
  ASSERT_TRUE(first->WaitForText("starting 1 pserver")) << first->Output();
  EXPECT_THAT(Scale("waits", {"--servers=1"}, 69), HasSubstr("another tandem scale changes job"));
  EXPECT_NE(first->Wait(60), 0);
  EXPECT_THAT(first->Output(), HasSubstr("does not have parameters on pserver 0 after 3 s"));
  // The new pserver has no rows, so it ends without a move.
  EXPECT_THAT(Scale("waits", {"--servers=1"}), HasSubstr("servers 2 → 1, took "));
  EXPECT_FALSE(job->Ended()) << job->Output();
}

// The trainers are ledger-trainers, which push all the time.
class ScaleLedgerTest : public ScaleTest {
 protected:
  static std::string Program(const std::string& name) {
    return std::filesystem::absolute(std::getenv("TANDEM_BIN_DIR")).string() + "/" + name;
  }
  std::string LedgerOf(int trainer) const { return Path("pushes-" + std::to_string(trainer)); }
  std::unique_ptr<ChildProcess> StartLedger(const Args& launch) {
    job_ = Write("ledger.pbtxt",
                 "name: \"ledger\"\nmodel { zoo: \"lenet\" }\ndata { format: \"idx\" dir: \"" +
                     std::string(kFashionMnist) + "\" }\n");
    const std::string script =
        Write("trainer.sh", "#!/bin/sh\nexec " + Program("ledger-trainer") +
                                " $TANDEM_PSERVERS $PADDLE_TRAINER_ID grpc " + Path("pushes") +
                                "-$PADDLE_TRAINER_ID\n");
    EXPECT_EQ(chmod(script.c_str(), 0700), 0);
    Args all = launch;
    all.push_back("--trainer_bin=" + script);
    return StartJob("ledger", all, {});
  }
  uint64_t Written() const {
    uint64_t bytes = 0;
    for (int t = 0; t < kLedgerTrainers; ++t) bytes += ReadWholeFile(LedgerOf(t)).size();
    return bytes;
  }
  // Waits for about 30 more pushes.
  void GoOn() const {
    const uint64_t enough = Written() + 600;
    EXPECT_TRUE(WaitUntil([&] { return Written() >= enough; }, 60)) << "no push goes through";
  }
  LedgerSum Compare() {
    for (int t = 0; t < kLedgerTrainers; ++t) std::ofstream(LedgerOf(t) + ".stop") << "\n";
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    LedgerSum sum;
    setenv("TANDEM_SECRET_FILE", Path("ledger.log/job.secret").c_str(), 1);
    const auto record = nlohmann::json::parse(Log("ledger", "job.json"), nullptr, false);
    const std::vector<std::string> servers =
        absl::StrSplit(record.value("pservers", std::string()), ',');
    const auto client = ps::PsClient::Connect(servers, LedgerOptions(0));
    const Status configured = client.ok() ? ConfigureLedger(**client).status() : client.status();
    EXPECT_TRUE(configured.ok()) << configured;
    if (configured.ok()) {
      CompareLedgers(
          **client, [this](int t) { return LedgerOf(t); }, &sum);
    }
    unsetenv("TANDEM_SECRET_FILE");
    return sum;
  }
};

TEST_F(ScaleLedgerTest, PserversComeAndGoAndEachPushCountsOnce) {
  const int port = FreePort();
  const auto job = StartLedger({"--servers=1", "--workers=2", "--durability=logged",
                                "--max_restarts=2", "--pserver_data_dir=" + Path("data"),
                                "--metrics_listen=127.0.0.1:" + std::to_string(port)});
  GoOn();
  EXPECT_THAT(Scale("ledger", {"--workers=3"}, 78), HasSubstr("[TD7017]"));
  EXPECT_THAT(Scale("ledger", {"--servers=2"}), HasSubstr("servers 1 → 2, took "));
  EXPECT_THAT(Scale("ledger", {}), HasSubstr("servers  2    2        1 to 1024: --servers=N"));
  const std::string metrics = HttpGet(port, "/metrics");
  EXPECT_THAT(metrics, HasSubstr("\ntandem_pservers 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ntandem_pservers_desired 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ntandem_pservers_min 1\n"));
  EXPECT_THAT(metrics, HasSubstr("\ntandem_workers 2\n"));
  EXPECT_THAT(metrics, HasSubstr("\ntandem_workers_max 2\n"));
  GoOn();
  // The new pserver has the restarts of the job.
  const std::vector<pid_t> before = ChildrenOf(job->pid(), "tandem-pserver");
  ASSERT_EQ(before.size(), 2u);
  kill(std::max(before[0], before[1]), SIGKILL);
  ASSERT_TRUE(WaitUntil(
      [&] { return Log("ledger", "events.jsonl").find("\"restarted\"") != std::string::npos; }));
  GoOn();
  EXPECT_THAT(Scale("ledger", {"--servers=1"}), HasSubstr("servers 2 → 1, took "));
  EXPECT_EQ(ChildrenOf(job->pid(), "tandem-pserver").size(), 1u);
  GoOn();
  // pserver 1 gets its rows again, and pserver 2 is new.
  EXPECT_THAT(Scale("ledger", {"--servers=3"}), HasSubstr("servers 1 → 3, took "));
  GoOn();
  EXPECT_THAT(Scale("ledger", {"--servers=1"}), HasSubstr("servers 3 → 1, took "));
  GoOn();
  EXPECT_FALSE(job->Ended()) << job->Output();
  const LedgerSum sum = Compare();
  EXPECT_GT(sum.acknowledged, 100);
  EXPECT_EQ(sum.lost, 0);
  EXPECT_EQ(sum.doubled, 0);
  std::printf("scale: %lld pushes\n", static_cast<long long>(sum.acknowledged));
}

// A move that takes longer than the time limit ends between two batches. A repeated command moves
// the rest.
TEST_F(ScaleLedgerTest, AMoveEndsAtTheTimeLimitAndGoesOnLater) {
  const auto job = StartLedger(
      {"--servers=1", "--workers=2", "--durability=logged", "--pserver_data_dir=" + Path("data")});
  GoOn();
  const std::vector<pid_t> servers = ChildrenOf(job->pid(), "tandem-pserver");
  ASSERT_EQ(servers.size(), 1u);
  const auto slow = Begin("ledger", {"--servers=2", "--wait_s=2"});
  ASSERT_TRUE(slow->WaitForText("moving rows and slices to")) << slow->Output();
  kill(servers[0], SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  kill(servers[0], SIGCONT);
  EXPECT_NE(slow->Wait(60), 0);
  EXPECT_THAT(slow->Output(), HasSubstr("but the time limit has passed [TD7018]"));
  EXPECT_THAT(Scale("ledger", {"--servers=2"}), HasSubstr("servers 2 → 2, took "));
  GoOn();
  EXPECT_THAT(Scale("ledger", {"--servers=1"}), HasSubstr("servers 2 → 1, took "));
  const LedgerSum sum = Compare();
  EXPECT_EQ(sum.lost, 0);
  EXPECT_EQ(sum.doubled, 0);
}

}  // namespace
}  // namespace tandem
