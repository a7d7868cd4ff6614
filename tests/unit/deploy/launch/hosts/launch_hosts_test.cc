// Several tandemruns as programs: one job on several hosts, which here are one machine. Shell
// scripts replace the trainers and pservers.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/launcher/elastic_world.h"
#include "common/os/ports.h"
#include "deploy/launch/job_record.h"
#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LaunchHostsTest : public LauncherTest {
 protected:
  void SetUp() override {
    LauncherTest::SetUp();
    std::ofstream(dir_ + "/secret") << "a secret of 32 bytes for this test\n";
    std::filesystem::permissions(dir_ + "/secret", std::filesystem::perms::owner_read);
    rendezvous_ = "tcp://127.0.0.1:" + std::to_string(*FreePorts("127.0.0.1", 1));
  }

  // Starts one more tandemrun of the job. Its output is in out.N and err.N.
  void StartHost(const std::vector<std::string>& args) {
    std::vector<std::string> all = {"--rendezvous=" + rendezvous_,
                                    "--secret_file=" + dir_ + "/secret"};
    all.insert(all.end(), args.begin(), args.end());
    Launch(all);
    const std::string number = std::to_string(hosts_.size());
    for (const char* file : {"out", "err"}) {
      std::filesystem::rename(dir_ + "/" + file, dir_ + "/" + file + "." + number);
    }
    hosts_.push_back(std::move(launcher_));
  }
  // Starts `count` tandemruns. The first one leads.
  void StartHosts(int count, const std::vector<std::string>& args) {
    for (int i = 0; i < count; ++i) {
      StartHost(args);
      ASSERT_TRUE(WaitUntil([this] { return !BindPort("127.0.0.1", Port()).ok(); }));
      const auto joined = [this] {
        return static_cast<int>(
                   std::vector<std::string>(absl::StrSplit(Errors(0), " has joined")).size()) -
               1;
      };
      ASSERT_TRUE(WaitUntil([&] { return joined() >= i; }));
    }
  }
  int Port() const { return std::stoi(rendezvous_.substr(rendezvous_.rfind(':') + 1)); }

  int ExitCode(size_t host) {
    EXPECT_TRUE(WaitUntil([&] { return hosts_[host]->Poll().has_value(); })) << Errors(host);
    return hosts_[host]->running() ? -1 : hosts_[host]->Poll()->AsExitCode();
  }
  std::string Errors(size_t host) const { return Read("err." + std::to_string(host)); }
  // Waits until the trainers of these ranks run.
  bool Running(const std::vector<int>& ranks) {
    return WaitUntil([&] {
      return std::ranges::all_of(ranks, [this](int rank) { return !Read(PidFile(rank)).empty(); });
    });
  }
  static std::string PidFile(int rank) { return "trainer." + std::to_string(rank) + ".pid"; }
  void Kill(int rank) { kill(std::stoi(Read(PidFile(rank))), SIGKILL); }

  std::string rendezvous_;
  std::vector<std::unique_ptr<Process>> hosts_;
};

TEST_F(LaunchHostsTest, OneJobOnTwoHosts) {
  trainer_script_ = Script("trainer", "env > $D/env.$RANK; echo trained");
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=2"});
  EXPECT_EQ(ExitCode(0), 0) << Errors(0);
  EXPECT_EQ(ExitCode(1), 0) << Errors(1);
  std::map<std::string, std::string> env[4];
  for (int rank = 0; rank < 4; ++rank) {
    std::istringstream lines(Read("env." + std::to_string(rank)));
    for (std::string line; std::getline(lines, line);) {
      env[rank][line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
    EXPECT_EQ(env[rank]["WORLD_SIZE"], "4");
    EXPECT_EQ(env[rank]["LOCAL_RANK"], std::to_string(rank % 2));
    EXPECT_EQ(env[rank]["LOCAL_WORLD_SIZE"], "2");
    EXPECT_EQ(env[rank]["PADDLE_TRAINER_ENDPOINTS"], env[0]["PADDLE_TRAINER_ENDPOINTS"]);
    EXPECT_EQ(env[rank]["TANDEM_RENDEZVOUS"], env[0]["PADDLE_CURRENT_ENDPOINT"]);
  }
  for (const char* log :
       {"host-0/workerlog.0", "host-0/workerlog.1", "host-1/workerlog.2", "host-1/workerlog.3"}) {
    EXPECT_EQ(Read(std::string("log/") + log), "trained\n") << log;
  }
}

TEST_F(LaunchHostsTest, AllHostsNameTheFirstFailure) {
  trainer_script_ = Script("trainer",
                           "if [ $RANK = 3 ]; then await trainer.0.pid; echo 'the cause'; exit 3; "
                           "fi\n" +
                               std::string(kWaitForEver));
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=2"});
  for (const size_t host : {0, 1}) {
    EXPECT_EQ(ExitCode(host), 3);
    EXPECT_THAT(Errors(host), AllOf(HasSubstr("first failure  trainer 3"),
                                    HasSubstr("log/host-1/workerlog.3"), HasSubstr("the cause")));
  }
  EXPECT_TRUE(AllGone({PidFile(0)}));
}

TEST_F(LaunchHostsTest, ASignalToOneHostStopsAll) {
  trainer_script_ = Script("trainer", kWaitForEver);
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=1"});
  ASSERT_TRUE(Running({0, 1}));
  hosts_[1]->Signal(SIGTERM);
  EXPECT_EQ(ExitCode(0), 128 + SIGTERM) << Errors(0);
  EXPECT_EQ(ExitCode(1), 128 + SIGTERM) << Errors(1);
  EXPECT_TRUE(AllGone({PidFile(0), PidFile(1)}));
}

TEST_F(LaunchHostsTest, EachHostHasTheEventsOfAll) {
  trainer_script_ = Script("trainer", kWaitForEver);
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=1", "--max_restarts=1"});
  ASSERT_TRUE(Running({0, 1}));
  std::filesystem::remove(dir_ + "/" + PidFile(1) + ".old");
  std::filesystem::copy(dir_ + "/" + PidFile(1), dir_ + "/" + PidFile(1) + ".old");
  Kill(1);
  ASSERT_TRUE(WaitUntil([this] { return Read(PidFile(1)) != Read(PidFile(1) + ".old"); }));
  for (const char* host : {"host-0", "host-1"}) {
    const auto has = [&](const std::string& text) {
      return absl::StrContains(Read(std::string("log/") + host + "/events.jsonl"), text);
    };
    EXPECT_TRUE(WaitUntil([&] { return has("\"restarted\""); })) << host;
    EXPECT_TRUE(has("killed by SIGKILL")) << host;
  }
  EXPECT_EQ(JobDirOf(dir_ + "/log"), dir_ + "/log/host-0");
  StartProgram("tandem", {"drain", dir_ + "/log", "--wait_s=20"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_EQ(ExitCode(0), 128 + SIGTERM);
  EXPECT_EQ(ExitCode(1), 128 + SIGTERM);
}

TEST_F(LaunchHostsTest, ALostHostIsOneEvent) {
  trainer_script_ = Script("trainer", kWaitForEver);
  StartHosts(3, {"--hosts=3", "--mode=collective", "--nproc=2"});
  ASSERT_TRUE(Running({0, 1, 2, 3, 4, 5}));
  hosts_[1]->Signal(SIGKILL);
  for (const size_t host : {0, 2}) {
    EXPECT_EQ(ExitCode(host), kExitLostPeer);
    EXPECT_THAT(Errors(host), AllOf(HasSubstr("first failure  host "), HasSubstr("[TD3016]"),
                                    HasSubstr("connection")));
  }
  EXPECT_TRUE(WaitUntil([this] { return AllGone({PidFile(0), PidFile(2), PidFile(4)}); }));
}

TEST_F(LaunchHostsTest, TheLossOfTheLeadingHostEndsTheOthers) {
  trainer_script_ = Script("trainer", kWaitForEver);
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=1"});
  ASSERT_TRUE(Running({0, 1}));
  hosts_[0]->Signal(SIGKILL);
  EXPECT_EQ(ExitCode(1), kExitLostPeer);
  EXPECT_THAT(Errors(1), AllOf(HasSubstr("first failure  host 0"), HasSubstr("it leads the job")));
  EXPECT_TRUE(WaitUntil([this] { return AllGone({PidFile(0), PidFile(1)}); }));
}

TEST_F(LaunchHostsTest, AJobWithCheckpointsIsLedAgain) {
  trainer_script_ = Script("trainer",
                           "echo $$ > $D/trainer.$RANK.pid\n"
                           "[ -e $D/end ] && exit 0\n"
                           "exec sleep 1000\n");
  for (const char* hosts : {"--hosts=2", "--hosts=1:2"}) {
    hosts_.clear();
    const std::vector<std::string> args = {hosts, "--mode=collective", "--nproc=1",
                                           "--max_restarts=2", "--checkpoint.dir=" + dir_ + "/c"};
    StartHosts(2, args);
    ASSERT_TRUE(Running({0, 1}));
    hosts_[0]->Signal(SIGKILL);
    ASSERT_TRUE(WaitUntil([&] { return absl::StrContains(Errors(1), "joins the job again"); }))
        << Errors(1);
    EXPECT_TRUE(WaitUntil([this] { return AllGone({PidFile(0), PidFile(1)}); }));
    std::ofstream(dir_ + "/end") << "now";
    StartHost(args);
    EXPECT_EQ(ExitCode(1), 0) << Errors(1) << Errors(2);
    EXPECT_EQ(ExitCode(2), 0) << Errors(1) << Errors(2);
    for (const char* file : {"end", "trainer.0.pid", "trainer.1.pid"}) {
      std::filesystem::remove(dir_ + "/" + file);
    }
  }
}

TEST_F(LaunchHostsTest, ARankOfAnyHostIsRestartedWithinTheBudgetOfTheJob) {
  trainer_script_ = Script("trainer", "if [ -n \"$TANDEM_RESTARTED\" ]; then echo again; rm $D/" +
                                          std::string("trainer.$RANK.pid; fi\n") + kWaitForEver);
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=1", "--max_restarts=1"});
  ASSERT_TRUE(Running({0, 1}));
  const std::string old = Read(PidFile(1));
  Kill(1);
  ASSERT_TRUE(WaitUntil([&] {
    const std::string now = Read(PidFile(1));
    return !now.empty() && now != old;
  }));
  EXPECT_THAT(Errors(1), HasSubstr("restarting it (restart 1 of 1)"));
  Kill(0);
  EXPECT_EQ(ExitCode(0), 128 + SIGKILL);
  EXPECT_EQ(ExitCode(1), 128 + SIGKILL);
  EXPECT_THAT(Errors(1), HasSubstr("first failure  trainer 0"));
}

TEST_F(LaunchHostsTest, ATandemrunReplacesALostHost) {
  trainer_script_ =
      Script("trainer", "[ -n \"$TANDEM_RESTARTED\" ] && echo $RANK >> $D/restarted\n" +
                            std::string(kWaitForEver));
  const std::vector<std::string> args = {"--hosts=2", "--mode=collective", "--nproc=2",
                                         "--max_restarts=3"};
  StartHosts(2, args);
  ASSERT_TRUE(Running({0, 1, 2, 3}));
  hosts_[1]->Signal(SIGKILL);
  ASSERT_TRUE(WaitUntil([this] { return Errors(0).find("is lost") != std::string::npos; }));
  for (const int rank : {2, 3}) std::filesystem::remove(dir_ + "/" + PidFile(rank));
  StartHost(args);
  ASSERT_TRUE(Running({2, 3})) << Errors(0) << Errors(2);
  EXPECT_THAT(Errors(0), AllOf(HasSubstr("(restart 1 of 3)"), HasSubstr("replaces the lost host")));
  EXPECT_EQ(Read("restarted").size(), 4u) << "both ranks know that they replace others";
  hosts_[0]->Signal(SIGTERM);
  EXPECT_EQ(ExitCode(0), 128 + SIGTERM);
  EXPECT_EQ(ExitCode(2), 128 + SIGTERM);
}

TEST_F(LaunchHostsTest, AnElasticJobHasOneWorldOnAllHosts) {
  trainer_script_ = Script("trainer", kWaitForEver);
  StartHosts(3, {"--hosts=2:3", "--mode=collective", "--nproc=1"});
  ASSERT_TRUE(Running({0, 1, 2}));
  const auto world = [this](int host) {
    return ReadElasticWorld(dir_ + "/log/host-" + std::to_string(host) + "/world");
  };
  const ElasticWorld all{1, 2, false, {0, 1, 2}};
  for (const int host : {0, 1, 2}) EXPECT_EQ(*world(host), all);
  hosts_[2]->Signal(SIGKILL);
  const ElasticWorld rest{2, 2, false, {0, 1}};
  EXPECT_TRUE(WaitUntil([&] { return *world(0) == rest && *world(1) == rest; }));
  hosts_[1]->Signal(SIGKILL);
  EXPECT_EQ(ExitCode(0), kExitLostPeer);
  EXPECT_THAT(Errors(0), HasSubstr("only 1 of 3 ranks are left, but the job needs 2"));
}

TEST_F(LaunchHostsTest, AHostLeavesAnElasticJobOnRequest) {
  trainer_script_ = Script("trainer", kWaitForEver);
  StartHosts(3, {"--hosts=2:3", "--mode=collective", "--nproc=1"});
  ASSERT_TRUE(Running({0, 1, 2}));
  hosts_[1]->Signal(SIGTERM);
  EXPECT_EQ(ExitCode(1), 128 + SIGTERM) << Errors(1);
  EXPECT_THAT(Errors(1), HasSubstr("SIGTERM: this host leaves the job"));
  EXPECT_THAT(Errors(0), HasSubstr("host 1 leaves: 2 of 3 ranks continue"));
  EXPECT_TRUE(AllGone({PidFile(1)}));
  EXPECT_FALSE(AllGone({PidFile(0)}));
  hosts_[2]->Signal(SIGTERM);  // the job needs two hosts
  EXPECT_EQ(ExitCode(2), 128 + SIGTERM) << Errors(2);
  EXPECT_EQ(ExitCode(0), 128 + SIGTERM) << Errors(0);
  EXPECT_THAT(Errors(0), HasSubstr("SIGTERM: stopping the job"));
}

TEST_F(LaunchHostsTest, PserversWaitForTheTrainersOfOtherHosts) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ =
      Script("trainer",
             "await server.0.pid; await server.1.pid; if [ $RANK = 0 ]; then await go; fi; echo "
             "$TANDEM_PSERVERS > $D/servers.$RANK");
  StartHosts(2, {"--hosts=2", "--servers=2", "--workers=2"});
  ASSERT_TRUE(WaitUntil([this] { return Exists("servers.1"); }));
  ASSERT_TRUE(WaitUntil(
      [this] { return Read("log/host-1/events.jsonl").find("\"ended\"") != std::string::npos; }));
  EXPECT_FALSE(AllGone({"server.1.pid"})) << "trainer 0 still needs it";
  EXPECT_THAT(Errors(1), Not(HasSubstr("Ctrl-C")));
  std::ofstream(dir_ + "/go") << "go\n";
  EXPECT_EQ(ExitCode(0), 0) << Errors(0);
  EXPECT_EQ(ExitCode(1), 0) << Errors(1);
  EXPECT_EQ(Read("servers.0"), Read("servers.1"));
  EXPECT_TRUE(AllGone({"server.0.pid", "server.1.pid"}));
}

TEST_F(LaunchHostsTest, TheLeadingHostMakesTheCertificatesOfAll) {
  trainer_script_ =
      Script("trainer",
             "for a in \"$@\"; do case $a in --tls_dir=*) tls=${a#--tls_dir=};; esac; "
             "done; mkdir $D/tls.$RANK; cp -rL $tls/. $D/tls.$RANK");
  StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=1", "--tls"});
  EXPECT_EQ(ExitCode(0), 0) << Errors(0);
  EXPECT_EQ(ExitCode(1), 0) << Errors(1);
  for (const char* file : {"ca.crt", "tls.crt", "tls.key"}) {
    EXPECT_NE(Read(std::string("tls.0/") + file), "") << file;
    EXPECT_EQ(Read(std::string("tls.0/") + file), Read(std::string("tls.1/") + file)) << file;
  }
  EXPECT_FALSE(Exists("log/host-1/tls")) << "the certificates end with the job";
}

TEST_F(LaunchHostsTest, OtherHostsNameTheReasonOfAHostThatCannotStart) {
  trainer_script_ = Script("trainer", std::string(kWaitForEver));
  for (const size_t host : {0, 1}) {
    std::filesystem::remove_all(dir_ + "/log");
    std::filesystem::create_directories(dir_ + "/log");
    std::ofstream(dir_ + absl::StrFormat("/log/host-%d", host)) << "a file, no directory\n";
    hosts_.clear();
    StartHosts(2, {"--hosts=2", "--mode=collective", "--nproc=1"});
    EXPECT_NE(ExitCode(0), 0);
    EXPECT_NE(ExitCode(1), 0);
    EXPECT_THAT(Errors(host), HasSubstr("log/host-"));
    EXPECT_THAT(Errors(1 - host),
                AllOf(HasSubstr(absl::StrFormat("first failure  host %d (", host)),
                      HasSubstr("its processes cannot start: "),
                      HasSubstr(absl::StrFormat("log/host-%d", host))));
  }
}

TEST_F(LaunchHostsTest, WrongCommandsAreRefused) {
  trainer_script_ = Script("trainer", "true");
  StartHosts(1, {"--hosts=2", "--mode=collective", "--nproc=2"});
  StartHost({"--hosts=2", "--mode=collective", "--nproc=1"});
  EXPECT_EQ(ExitCode(1), kExitConfig);
  EXPECT_THAT(Errors(1), HasSubstr("runs tandemrun with 2 trainers, the leading one with 4 "
                                   "trainers [TD3015]"));
  EXPECT_THAT(Errors(0), HasSubstr("is refused"));
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--hosts=3:2", "--nproc=1"}, "[TD1004]"},
      {{"--hosts=2", "--nproc=1", "--gpus=0"}, "[TD1109]"},
      {{"--hosts=2", "--workers=1", "--servers=127.0.0.1:7000"}, "[TD1005]"},
      {{"--hosts=2", "--mode=local"}, "[TD1005]"},
      {{"--listen_host=127.0.0.1", "--nproc=1"}, "[TD1005]"},
      {{"--hosts=1", "--listen_host=127.0.0.1", "--nproc=1"}, "[TD1005]"},
      {{"--hosts=1:2", "--servers=2", "--workers=2"}, "[TD1005]"},
  };
  for (const auto& [args, code] : wrong) {
    StartHost(args);
    EXPECT_EQ(ExitCode(hosts_.size() - 1), kExitUsage);
    EXPECT_THAT(Errors(hosts_.size() - 1), HasSubstr(code));
  }
}

}  // namespace
}  // namespace tandem::deploy
