// tandemrun as a program: the arguments of its child processes, and its messages about failures. No
// process may remain after a test.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/base/status.h"
#include "common/os/ports.h"
#include "common/threads/stop_request.h"
#include "deploy/launch/job_record.h"
#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(LauncherTest, JobThatSucceeds) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer",
                           "await server.0.pid; await server.1.pid; echo trained $RANK; stat -Lc "
                           "%a $TANDEM_SECRET_FILE; "
                           "wc -c < $TANDEM_SECRET_FILE; env > $D/env.$RANK; "
                           "echo \"$@\" > $D/args.$RANK");
  Launch({"--servers=2", "--workers=2", "--", "--epochs=3"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();

  EXPECT_EQ(Out(), "trained 0\n400\n65\n");  // the output of the first trainer only
  EXPECT_EQ(Read("log/workerlog.0"), "trained 0\n400\n65\n");
  EXPECT_EQ(Read("log/workerlog.1"), "trained 1\n400\n65\n");
  for (const char* log : {"log/serverlog.0", "log/serverlog.1"}) {
    EXPECT_EQ(Read(log), "serving\nstopped\n");
  }
  EXPECT_EQ(Read("args.1"), "--job_file=" + dir_ + "/job.pbtxt --mode=pserver --epochs=3\n");
  EXPECT_THAT(Read("env.1"), HasSubstr("\nOMP_WAIT_POLICY=passive\n"));
  EXPECT_FALSE(Exists("log/job.secret"));
  EXPECT_FALSE(Exists("log/error.json"));
  EXPECT_TRUE(AllGone({"server.0.pid", "server.1.pid"}));
}

// The launcher removes logs of an earlier job. That job had more processes, so users could mistake
// its logs for logs of this job.
TEST_F(LauncherTest, LogsOfAnotherJobDoNotStayBesideItsOwn) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer", std::string(kAwait) + "await server.1.pid");
  Launch({"--servers=2", "--workers=3"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  std::ofstream(dir_ + "/log/notes.7") << "a user's\n";
  for (const char* log : {"serverlog.1", "workerlog.2"})
    EXPECT_TRUE(Exists(std::string("log/") + log)) << log;

  trainer_script_ = Script("trainer", "echo trained");
  Launch({"--mode=collective", "--nproc=2"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  for (const char* log : {"workerlog.0", "workerlog.1", "notes.7"})
    EXPECT_TRUE(Exists(std::string("log/") + log));
  for (const char* log : {"serverlog.0", "serverlog.1", "workerlog.2"}) {
    EXPECT_FALSE(Exists(std::string("log/") + log)) << log;
  }
}

TEST_F(LauncherTest, CollectiveEnvironment) {
  trainer_script_ = Script("trainer", "env > $D/env.$RANK");
  Launch({"--mode=collective", "--nproc=2", "--quiet"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Err(), "");
  std::map<std::string, std::string> env[2];
  for (int rank : {0, 1}) {
    std::istringstream text(Read("env." + std::to_string(rank)));
    for (std::string line; std::getline(text, line);) {
      env[rank][line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
    }
    EXPECT_EQ(env[rank]["RANK"], std::to_string(rank));
    EXPECT_EQ(env[rank]["PADDLE_TRAINER_ID"], std::to_string(rank));
    EXPECT_EQ(env[rank]["WORLD_SIZE"], "2");
    EXPECT_EQ(env[rank]["PADDLE_TRAINERS_NUM"], "2");
    EXPECT_EQ(env[rank]["LOCAL_RANK"], std::to_string(rank));
    EXPECT_EQ(env[rank]["LOCAL_WORLD_SIZE"], "2");
    EXPECT_EQ(env[rank]["TRAINING_ROLE"], "TRAINER");
    EXPECT_EQ(env[rank]["TANDEM_JOB"], "fake");
    EXPECT_EQ(env[rank].count("PADDLE_PSERVERS_IP_PORT_LIST"), 0u);
  }
  const std::string first = env[0]["PADDLE_CURRENT_ENDPOINT"];
  for (int rank : {0, 1}) {
    EXPECT_EQ(env[rank]["TANDEM_RENDEZVOUS"], first);
    EXPECT_EQ(env[rank]["PADDLE_TRAINER_ENDPOINTS"],
              first + "," + env[1]["PADDLE_CURRENT_ENDPOINT"]);
  }
}

TEST_F(LauncherTest, FirstFailureIsNamedAndTheRestIsStopped) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script(
      "trainer",
      std::string("if [ $RANK = 0 ]; then ") + kWaitForEver +
          "fi\nawait server.0.pid; await trainer.0.pid; for i in $(seq 30); do echo line $i; done; "
          "printf 'bad \\xff byte\\n'; echo no such thing >&2; exit 65");
  Launch({"--servers=1", "--workers=2"});
  EXPECT_EQ(WaitForLauncher(), 65);
  EXPECT_THAT(Err(), HasSubstr("job \"fake\" failed"));
  EXPECT_THAT(Err(), HasSubstr("first failure  trainer 1 on host "));
  EXPECT_THAT(Err(), HasSubstr("): exit code 65, after "));
  EXPECT_THAT(Err(), HasSubstr("    | no such thing\n"));
  EXPECT_THAT(Err(), HasSubstr("    | line 13\n"));  // the report shows the last 20 lines
  EXPECT_THAT(Err(), Not(HasSubstr("    | line 12\n")));
  EXPECT_THAT(Err(), HasSubstr("then           trainer 0: killed by SIGTERM\n"));
  EXPECT_THAT(Err(), HasSubstr("then           pserver 0: exit code 0\n"));
  EXPECT_TRUE(AllGone({"server.0.pid", "trainer.0.pid"}));

  const auto json = nlohmann::json::parse(Read("log/error.json"));
  EXPECT_EQ(json["role"], "trainer");
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["exit_code"], 65);
  EXPECT_EQ(json["last_lines"].size(), 20u);
  EXPECT_FALSE(json["host"].get<std::string>().empty());
  EXPECT_FALSE(Exists("log/job.secret"));
}

TEST_F(LauncherTest, DeathBySignal) {
  trainer_script_ = Script(
      "trainer", std::string("if [ $RANK = 0 ]; then ") + kWaitForEver + "fi\nkill -SEGV $$");
  Launch({"--mode=collective", "--nproc=2"});
  EXPECT_EQ(WaitForLauncher(), 128 + SIGSEGV);
  EXPECT_THAT(Err(), HasSubstr("killed by SIGSEGV"));
  EXPECT_EQ(nlohmann::json::parse(Read("log/error.json"))["signal"], "SIGSEGV");
}

// The launcher printed the settings at the start. Therefore the report of a failure shows only the
// error and the action.
TEST_F(LauncherTest, AFailureIsToldWithoutTheSettings) {
  trainer_script_ =
      Script("trainer",
             "if [ $RANK = 0 ]; then exec sleep 1000; fi\n"
             "echo 'epochs: 3   (job.pbtxt:4:1)'; echo 'mode: LOCAL   (flag --mode)'\n"
             "echo 'tandem-trainer: error: none: no such data folder [TD2001] (NOT_FOUND)'\n"
             "echo 'hint: name the folder'; exit 2");
  Launch({"--mode=collective", "--nproc=2"});
  EXPECT_EQ(WaitForLauncher(), kExitUsage);
  const std::string log = dir_ + "/log/workerlog.1";
  EXPECT_THAT(Err(), HasSubstr("its last lines:\n"
                               "    | tandem-trainer: error: none: no such data folder [TD2001] "
                               "(NOT_FOUND)\n    | hint: name the folder\n  then "));
  EXPECT_THAT(Err(), HasSubstr("hint: run tandem explain TD2001; read the complete output in " +
                               log + "\n"));
  EXPECT_THAT(Err(), Not(HasSubstr("epochs: 3")));
  EXPECT_EQ(nlohmann::json::parse(Read("log/error.json"))["last_lines"].size(), 4u);
}

TEST_F(LauncherTest, ACrashUnderALimitOfMemoryNamesTheLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit small{rlim_t{1} << 36, before.rlim_max};
  trainer_script_ = Script("trainer", "kill -ABRT $$");
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), 128 + SIGABRT);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(
      Err(),
      HasSubstr("check the limits of this host, which may be too low for the process: ulimit -v "
                "allows 68719476736 bytes; "));
}

// Writes to the logs fail, as on a full disk. The job continues, and the launcher reports the lines
// that are missing in the logs.
TEST_F(LauncherTest, LinesThatAreLostAreToldAndTheJobGoesOn) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{20'000, before.rlim_max};
  trainer_script_ = Script("trainer", "for i in $(seq 3000); do echo line $i of the log; done");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string said = "tandemrun: warning: lines of the logs or events in " + dir_ +
                           "/log are lost: " + dir_ +
                           "/log/workerlog.0: cannot be written (File too large) [TD2115]";
  const size_t first = Err().find(said);
  ASSERT_NE(first, std::string::npos) << Err();
  EXPECT_THAT(Err(), HasSubstr("[TD2117]; the job continues\n"));
  const size_t last = Err().rfind(said);
  EXPECT_NE(last, first) << "at once, and at the end";
  EXPECT_EQ(Err().find(said, first + 1), last) << "no third time";
}

TEST_F(LauncherTest, PserverThatEndsEarlyIsAFailure) {
  server_script_ = Script("server", "await trainer.0.pid");
  trainer_script_ = Script("trainer", kWaitForEver);
  Launch({"--servers=1", "--workers=1"});
  EXPECT_EQ(WaitForLauncher(), kExitFailure);
  EXPECT_THAT(Err(), HasSubstr("pserver 0 on host"));
  EXPECT_THAT(Err(), HasSubstr("ended with exit code 0 before the trainers did"));
  EXPECT_TRUE(AllGone({"trainer.0.pid"}));
}

// An event in the log directory records that the pserver is drained. After that, the pserver may
// exit.
TEST_F(LauncherTest, PserverThatWasDrainedMayEnd) {
  server_script_ = Script("server", "echo > $D/up\nawait drained");
  trainer_script_ = Script("trainer", kWaitForEver);
  Launch({"--servers=1", "--workers=1"});
  ASSERT_TRUE(WaitUntil([&] { return Exists("up"); }));
  ASSERT_TRUE(deploy::AddEvent(dir_ + "/log", {"", "drained", "pserver 0", 0, ""}).ok());
  Script("drained", "true");
  ASSERT_TRUE(
      WaitUntil([&] { return Read("log/events.jsonl").find("left") != std::string::npos; }));
  ASSERT_TRUE(WaitUntil([&] { return !Read("trainer.0.pid").empty(); }));
  launcher_->Signal(SIGTERM);
  EXPECT_EQ(WaitForLauncher(), 128 + SIGTERM) << Err();
  EXPECT_THAT(Err(), Not(HasSubstr("failed")));
}

TEST_F(LauncherTest, PserverThatIsToldToStopComesAgain) {
  server_script_ = Script("server", std::string("[ -e $D/first ] || { echo > $D/first; await "
                                                "trainer.0.pid; exit 0; }\n") +
                                        kGoodServer);
  trainer_script_ = Script("trainer", "echo $$ > $D/trainer.0.pid\nawait server.0.pid");
  Launch(
      {"--servers=1", "--workers=1", "--max_restarts=1", "--pserver_data_dir=" + dir_ + "/data"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(Err(),
              HasSubstr("pserver 0 was stopped on request; restarting it (restart 1 of 1)\n"));
}

TEST_F(LauncherTest, APserverWithoutDurabilityComesAgainWithACaution) {
  server_script_ = Script(
      "server", std::string("[ -e $D/first ] || { echo > $D/first; kill -9 $$; }\n") + kGoodServer);
  trainer_script_ = Script("trainer", "await server.0.pid");
  Launch({"--servers=1", "--workers=1", "--max_restarts=1", "--durability=none",
          "--pserver_data_dir=" + dir_ + "/data"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(Err(),
              HasSubstr("restarting it (restart 1 of 1); with --durability=none it restores only "
                        "its last checkpoint, and later pushes are lost\n"));
}

TEST_F(LauncherTest, AProcessThatCannotBeStartedAgainEndsTheJob) {
  server_script_ = Script("server", "echo > $D/server.ran; chmod a-x $0; kill -9 $$\n");
  trainer_script_ = Script("trainer", kWaitForEver);
  Launch(
      {"--servers=1", "--workers=1", "--max_restarts=5", "--pserver_data_dir=" + dir_ + "/data"});
  EXPECT_EQ(WaitForLauncher(), ExitCodeOf(PermissionDenied("the program"))) << Err();
  EXPECT_THAT(Err(), HasSubstr("restarting pserver 0: a program of the job is not executable"));
}

// A process hangs, and the process that waits for it exits with an error. The launcher must name
// the hanging process as the first failure.
TEST_F(LauncherTest, WhoDoesNotAnswerIsTheFirstFailure) {
  server_script_ =
      Script("server", std::string("echo here pserver 0 > $TANDEM_LAUNCHER\n") + kGoodServer);
  trainer_script_ = Script(
      "trainer", std::string("if [ $RANK = 0 ]; then ") + kWaitForEver +
                     "fi\ntrap : TERM\nawait server.0.pid; await trainer.0.pid; sleep 0.1\n"
                     "echo waits trainer 1 pserver 0 4 4 60000 > $TANDEM_LAUNCHER; exit 200");
  Launch({"--servers=1", "--workers=2"});
  EXPECT_EQ(WaitForLauncher(), kExitLostPeer) << Err();
  EXPECT_THAT(Err(), HasSubstr("pserver 0 does not reply (trainer 1 has waited for it for 0.0 s)"));
  EXPECT_THAT(Err(), HasSubstr("first failure  pserver 0 on host "));
  EXPECT_THAT(Err(), HasSubstr("did not reply for 0.0 s and was killed [TD3012]"));
  EXPECT_THAT(Err(), HasSubstr("then           trainer 1: exit code 200"));
  EXPECT_TRUE(AllGone({"server.0.pid", "trainer.0.pid"}));
}

// Ranks of a collective job send no reports to the launcher. The launcher must recognise the
// hanging rank because it does not exit on request.
TEST_F(LauncherTest, WhoHangsIsTheFirstFailureAndNotWhoWaitedForIt) {
  trainer_script_ = Script(
      "trainer",
      "if [ $RANK = 0 ]; then trap '' TERM; echo $$ > $D/trainer.0.pid; while :; do sleep 1; done; "
      "fi\nawait trainer.0.pid; echo 'waiting for rank 0, which sends nothing'; exit 200");
  Launch({"--mode=collective", "--nproc=2", "--grace_s=1"});
  EXPECT_EQ(WaitForLauncher(), kExitLostPeer) << Err();
  EXPECT_THAT(Err(), HasSubstr("first failure  trainer 0 on host "));
  EXPECT_THAT(Err(), HasSubstr("did not reply for 1.0 s and was killed [TD3012]"));
  EXPECT_THAT(Err(), HasSubstr("then           trainer 1: exit code 200"));
  EXPECT_TRUE(AllGone({"trainer.0.pid"}));
}

TEST_F(LauncherTest, WhoDoesNotAnswerComesAgain) {
  server_script_ = Script("server", std::string("echo x >> $D/servers\n") + kGoodServer);
  trainer_script_ = Script(
      "trainer",
      "if [ $RANK = 0 ]; then echo $$ >> $D/first; [ $(wc -l < $D/first) = 2 ] && exit 0\n"
      "echo here trainer 0 > $TANDEM_LAUNCHER; echo > $D/joined; exec sleep 1000; fi\n"
      "[ $TANDEM_REPLACES = 1 ] || exit 3\n"
      "await joined; sleep 0.1; echo waits caller 1 caller 0 4 60000 60000 > $TANDEM_LAUNCHER\n"
      "while [ $(wc -l < $D/first) = 1 ]; do\n"
      "echo waits caller 1 caller 0 4 4 60000 > $TANDEM_LAUNCHER; sleep 0.05\n"
      "done; true");
  Launch({"--servers=1", "--workers=2", "--max_restarts=1"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(
      Err(),
      HasSubstr("trainer 1 is waiting for trainer 0, which does not reply (0.0 s of 60.0 s)"));
  EXPECT_THAT(Err(), HasSubstr("trainer 0 does not reply (trainer 1 has waited"));
  EXPECT_THAT(Err(), HasSubstr("restarting it (restart 1 of 1)"));
  EXPECT_EQ(Read("servers"), "x\n");
}

// A process that is starting has more time before the launcher treats it as hanging. The same holds
// for a process that the launcher restarted while another process was waiting for it.
TEST_F(LauncherTest, WhoStartsIsNotTakenForOneThatHangs) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script(
      "trainer",
      "if [ $RANK = 0 ]; then echo $$ > $D/trainer.0.pid; await told; exit 0; fi\n"
      "await trainer.0.pid; sleep 0.1; echo waits caller 1 caller 0 4 4 60000 > $TANDEM_LAUNCHER\n"
      "echo waits caller 1 caller 0 90000 4 60000 > $TANDEM_LAUNCHER; echo > $D/told");
  Launch({"--servers=1", "--workers=2", "--max_restarts=1"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(Err(), HasSubstr("which has not joined (0.0 s of 60.0 s)"));
  EXPECT_THAT(Err(), Not(HasSubstr("killing it")));
}

TEST_F(LauncherTest, PserverWhoseStorageFailedComesAgain) {
  server_script_ = Script("server", std::string("[ -e $D/first ] || { echo > $D/first; await "
                                                "trainer.0.pid; exit 201; }\n") +
                                        kGoodServer);
  trainer_script_ = Script("trainer", "echo $$ > $D/trainer.0.pid\nawait server.0.pid");
  Launch(
      {"--servers=1", "--workers=1", "--max_restarts=1", "--pserver_data_dir=" + dir_ + "/data"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(Err(), HasSubstr("pserver 0 was ended by a storage error; restarting it"));
}

// The script of the server never listens. Therefore a connection reaches the socket with which the
// launcher reserves the address.
TEST_F(LauncherTest, ATcpAddressIsHeldForItsPserver) {
  const auto port = FreePorts("127.0.0.1", 1);
  ASSERT_TRUE(port.ok()) << port.status();
  const std::string address = "127.0.0.1:" + std::to_string(*port);
  server_script_ =
      Script("server", std::string("echo \"$@\" >> $D/args\n[ -e $D/first ] || { echo > "
                                   "$D/first; kill -9 $$; }\n") +
                           kGoodServer);
  trainer_script_ = Script("trainer", "await server.0.pid\nexec 3<>/dev/tcp/127.0.0.1/" +
                                          std::to_string(*port) + " && echo held > $D/held");
  Launch({"--servers=" + address, "--workers=1", "--max_restarts=1",
          "--pserver_data_dir=" + dir_ + "/data"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_EQ(Read("held"), "held\n");
  std::istringstream args(Read("args"));
  std::string first, second;
  std::getline(args, first);
  std::getline(args, second);
  EXPECT_THAT(first, HasSubstr("--listen=" + address));
  EXPECT_THAT(first, HasSubstr("--listen_fd="));
  EXPECT_EQ(first, second) << "the same socket after a restart";
  EXPECT_TRUE(BindPort("127.0.0.1", *port).ok()) << "it ends with the job";
}

TEST_F(LauncherTest, TheFolderOfSocketsIsPrivateAndEndsWithTheJob) {
  server_script_ = Script("server", std::string("stat -c %a $(dirname $PADDLE_PORT) > $D/mode\n"
                                                "echo $PADDLE_PORT > $D/path\n") +
                                        kGoodServer);
  trainer_script_ = Script("trainer", "await server.0.pid");
  Launch({"--servers=1", "--workers=1"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_EQ(Read("mode"), "700\n");
  const std::string path = Read("path");
  EXPECT_THAT(path, HasSubstr("/pserver-0"));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(path).parent_path())) << path;
}

TEST_F(LauncherTest, PserverMustEndWithZero) {
  server_script_ = Script("server",
                          "trap 'echo lost it; exit 74' TERM\necho > $D/up\nmkfifo $D/never\n"
                          "while true; do read -t 1 line <> $D/never; done");
  trainer_script_ = Script("trainer", "await up");
  Launch({"--servers=1", "--workers=1"});
  EXPECT_EQ(WaitForLauncher(), 74) << Err();
  EXPECT_THAT(Err(), HasSubstr("| lost it"));
}

TEST_F(LauncherTest, WhoDoesNotStopIsKilledAfterTheGrace) {
  server_script_ = Script("server",
                          "trap '' TERM\necho $$ > $D/server.0.pid\nmkfifo $D/never\n"
                          "while true; do read -t 1 line <> $D/never; done");
  trainer_script_ = Script("trainer", "await server.0.pid");
  Launch({"--servers=1", "--workers=1", "--grace_s=0"});
  EXPECT_EQ(WaitForLauncher(), kExitFailure) << Err();
  EXPECT_THAT(Err(), HasSubstr("did not end on SIGTERM and had to be killed"));
  EXPECT_TRUE(AllGone({"server.0.pid"}));
}

TEST_F(LauncherTest, KilledLauncherLeavesNobody) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer", kWaitForEver);
  Launch({"--servers=2", "--workers=2"});
  const std::vector<std::string> pids = {"server.0.pid", "server.1.pid", "trainer.0.pid",
                                         "trainer.1.pid"};
  ASSERT_TRUE(WaitUntil([&] {
    for (const std::string& file : pids) {
      if (Read(file).empty()) return false;
    }
    return true;
  }));
  EXPECT_FALSE(AllGone(pids));
  kill(launcher_->pid(), SIGKILL);  // kills only the launcher, not its process group
  EXPECT_EQ(WaitForLauncher(), 128 + SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return AllGone(pids); }));
}

TEST_F(LauncherTest, SignalIsForwarded) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer", kWaitForEver);
  Launch({"--servers=1", "--workers=1"});
  ASSERT_TRUE(
      WaitUntil([&] { return !Read("trainer.0.pid").empty() && !Read("server.0.pid").empty(); }));
  kill(launcher_->pid(), SIGTERM);
  EXPECT_EQ(WaitForLauncher(), 128 + SIGTERM) << Err();
  EXPECT_THAT(Err(), HasSubstr("SIGTERM: stopping the job"));
  EXPECT_EQ(Read("log/serverlog.0"), "serving\nstopped\n");
  EXPECT_TRUE(AllGone({"server.0.pid", "trainer.0.pid"}));
}

TEST_F(LauncherTest, SecondSignalKills) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer",
                           "trap '' INT TERM\nmkfifo $D/never\necho $$ > $D/trainer.0.pid\n"
                           "while true; do read -t 1 line <> $D/never; done");
  Launch({"--servers=1", "--workers=1", "--grace_s=3600"});
  ASSERT_TRUE(WaitUntil([&] { return !Read("trainer.0.pid").empty(); }));
  // Several signals within a short time, as timeout(1) sends them, count as one request.
  for (const int signal : {SIGSTOP, SIGINT, SIGTERM, SIGCONT}) kill(launcher_->pid(), signal);
  ASSERT_TRUE(WaitUntil([&] { return Err().find("stopping the job") != std::string::npos; }));
  std::this_thread::sleep_for(2 * kSameStopRequest);
  EXPECT_THAT(Err(), Not(HasSubstr("killing the job")));
  kill(launcher_->pid(), SIGINT);
  EXPECT_EQ(WaitForLauncher(), 128 + SIGINT) << Err();
  EXPECT_THAT(Err(), HasSubstr("second SIGINT: killing the job"));
  EXPECT_TRUE(AllGone({"trainer.0.pid"}));
}

TEST_F(LauncherTest, MissingProgram) {
  trainer_script_ = dir_ + "/nothing-here";
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("a program of the job is missing: trainer 0: cannot start " +
                               trainer_script_ + ": No such file or directory"));
}

TEST_F(LauncherTest, ProgressBarGetsATerminalAndTheLogItsLastState) {
  int ours = -1, theirs = -1;
  winsize size = {30, 77, 0, 0};
  ASSERT_EQ(openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
  const Fd master(ours);
  Fd slave(theirs);
  fcntl(ours, F_SETFD, FD_CLOEXEC);
  fcntl(theirs, F_SETFD, FD_CLOEXEC);
  stdout_fd_ = theirs;
  trainer_script_ = Script("trainer",
                           "[ -t 1 ] && echo terminal; stty size <&1; "
                           "printf '10%%\\r50%%\\r100%%\\n'; [ -t 2 ] || echo plain >&2");
  Launch({"--mode=local"});
  slave.Reset();
  EXPECT_EQ(WaitForLauncher(), 0);
  std::string shown;
  char buffer[256];
  for (ssize_t n; (n = read(ours, buffer, sizeof(buffer))) > 0;) {
    shown.append(buffer, static_cast<size_t>(n));
  }
  EXPECT_EQ(shown, "terminal\r\n30 77\r\n10%\r50%\r100%\r\n");
  EXPECT_THAT(Read("log/workerlog.0"), HasSubstr("terminal\n30 77\n100%\n"));
  EXPECT_THAT(Err(), HasSubstr("plain\n"));
}

TEST_F(LauncherTest, UsageErrorsExitWithTwo) {
  Launch({"--servers=2", "--workers=2", "--nproc=2"});
  EXPECT_EQ(WaitForLauncher(), kExitUsage);
  EXPECT_THAT(Err(), HasSubstr("tandemrun: error: --workers needs pserver mode, but --nproc"));
  EXPECT_FALSE(Exists("log"));
}

TEST_F(LauncherTest, DryRunStartsNothing) {
  Launch({"--servers=1", "--workers=2", "--dry_run"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("job fake, mode pserver: 1 pserver, 2 trainers"));
  EXPECT_THAT(Out(), HasSubstr("env     PADDLE_TRAINER_ID=1"));
  EXPECT_FALSE(Exists("log"));
}

// The leading tandemrun makes the certificates when the hosts have joined.
TEST_F(LauncherTest, DryRunWithHostsNeedsNoCertificates) {
  const std::string secret = dir_ + "/secret";
  std::ofstream(secret) << "the secret of a test";
  std::filesystem::permissions(secret, std::filesystem::perms::owner_read);
  Launch({"--hosts=2", "--nproc=1", "--rendezvous=tcp://node-a:7700", "--tls",
          "--secret_file=" + secret, "--dry_run"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
  EXPECT_THAT(Out(), HasSubstr("mode collective: 2 trainers"));
  EXPECT_FALSE(Exists("log"));
}

}  // namespace
}  // namespace tandem::deploy
