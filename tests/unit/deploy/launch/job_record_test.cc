// Only the owner of a log directory can follow it. The directory shows whether the launcher of the
// job has ended.
#include "deploy/launch/job_record.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/deploy/launcher_fixture.h"

namespace tandem::deploy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;

// Returns the start time of a process, from field 22 of /proc/PID/stat (proc(5)).
uint64_t StartOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) rest >> skipped;
  uint64_t start = 0;
  rest >> start;
  return start;
}

class JobRecordTest : public LauncherTest {
 protected:
  int Tandem(const std::vector<std::string>& args) {
    StartProgram("tandem", args);
    return WaitForLauncher();
  }
  // Starts a child process of `user` that waits to be killed.
  pid_t Sleeper(uid_t user) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      const bool became = user == geteuid() || setuid(user) == 0;
      [[maybe_unused]] const ssize_t n = write(ready[1], became ? "y" : "n", 1);
      while (true) pause();
    }
    char became = 0;
    EXPECT_EQ(read(ready[0], &became, 1), 1);
    EXPECT_EQ(became, 'y');
    for (const int end : ready) close(end);
    children_.push_back(child);
    return child;
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    LauncherTest::TearDown();
  }
  // Returns the signal that ended the child, or 0 while it runs.
  static int EndOf(pid_t child) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid == child ? info.si_status : 0;
  }

  std::vector<pid_t> children_;
};

TEST_F(JobRecordTest, AFolderThatOthersWriteIsRefused) {
  std::filesystem::create_directory(dir_ + "/log");
  std::ofstream(dir_ + "/victim") << "precious";
  std::filesystem::create_symlink(dir_ + "/victim", dir_ + "/log/job.json");
  trainer_script_ = Script("trainer", "true");
  const std::string said =
      "other users may write to directory " + dir_ + "/log (mode 777) [TD2113]";
  ASSERT_EQ(chmod((dir_ + "/log").c_str(), 0777), 0);
  for (const char* command : {"status", "drain", "save"}) {
    EXPECT_EQ(Tandem({command, dir_ + "/log"}), kExitPermission) << command;
    EXPECT_THAT(Err(), HasSubstr(said)) << command;
  }
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), kExitPermission);
  EXPECT_THAT(Err(), HasSubstr(said));
  EXPECT_EQ(Read("victim"), "precious");

  // The log directory belongs only to the user now, but a file in it is a link.
  ASSERT_EQ(chmod((dir_ + "/log").c_str(), 0700), 0);
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), kExitPermission);
  EXPECT_THAT(Err(), HasSubstr("/log/job.json is a link, which is not allowed here [TD2113]"));
  EXPECT_EQ(Tandem({"status", dir_ + "/log"}), kExitPermission);
  EXPECT_EQ(Read("victim"), "precious");
}

TEST_F(JobRecordTest, AFolderOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
  std::filesystem::create_directory(dir_ + "/log");
  const pid_t named = Sleeper(geteuid());
  std::ofstream(dir_ + "/log/job.json")
      << R"({"job": "j", "mode": "pserver", "pservers": "127.0.0.1:1", "processes": [],)"
      << R"("secret_file": "/etc/shadow", "launcher_pid": )" << named
      << ", \"launcher_start\": " << StartOf(named) << "}";
  ASSERT_EQ(chown((dir_ + "/log").c_str(), kNobody, kNobody), 0);
  trainer_script_ = Script("trainer", "true");
  for (const char* command : {"drain", "status", "save", "events"}) {
    EXPECT_EQ(Tandem({command, dir_ + "/log"}),
              command == std::string("events") ? kExitUsage : kExitPermission)
        << command << Err();
  }
  EXPECT_EQ(EndOf(named), 0) << "it was signalled";
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), kExitPermission);
  EXPECT_THAT(Err(), AllOf(HasSubstr("(65534), expected root [TD2113]"),
                           HasSubstr("hint: run the command as the expected user")));
}

TEST_F(JobRecordTest, OnlyTheLauncherItselfIsSignalled) {
  deploy::JobRecord record;
  record.job = "j";
  record.launcher_pid = Sleeper(geteuid());
  const auto pid = static_cast<pid_t>(record.launcher_pid);
  // A start time that differs from the start time of this process, as if the recorded pid belonged
  // to an earlier process.
  record.launcher_start = StartOf(pid) + 1;
  EXPECT_EQ(deploy::SignalLauncher(record, SIGTERM).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(EndOf(pid), 0);
  record.launcher_start = StartOf(pid);
  EXPECT_TRUE(deploy::SignalLauncher(record, SIGTERM).ok());
  EXPECT_TRUE(WaitUntil([&] { return EndOf(pid) == SIGTERM; }));
  EXPECT_EQ(deploy::SignalLauncher(record, SIGTERM).code(), StatusCode::kFailedPrecondition);
}

TEST_F(JobRecordTest, AProcessOfAnotherUserIsNotSignalled) {
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  deploy::JobRecord record;
  record.job = "j";
  record.launcher_pid = Sleeper(kNobody);
  const auto pid = static_cast<pid_t>(record.launcher_pid);
  record.launcher_start = StartOf(pid);
  const Status refused = deploy::SignalLauncher(record, SIGTERM);
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("was not signalled: the process belongs to user 65534, expected user 0 "
                        "(job.json of job j names this process) [TD6028]"));
  EXPECT_EQ(EndOf(pid), 0);
}

TEST_F(JobRecordTest, ALauncherThatIsGoneIsTold) {
  server_script_ = Script("server", kGoodServer);
  trainer_script_ = Script("trainer", kWaitForEver);
  Launch({"--servers=1", "--workers=1", "--tls"});
  ASSERT_TRUE(WaitUntil([&] { return Read("trainer.0.pid") != "" && Read("server.0.pid") != ""; }));
  EXPECT_EQ(Read("log/job.secret").size(), 65u) << "for commands of the same user";
  EXPECT_THAT(Read("log/tls/admin/tls.key"), HasSubstr("PRIVATE KEY"));
  const std::string pid = std::to_string(launcher_->pid());
  kill(launcher_->pid(), SIGKILL);
  EXPECT_EQ(WaitForLauncher(), 128 + SIGKILL);
  EXPECT_FALSE(Exists("log/job.secret")) << "it ended with its maker";
  EXPECT_FALSE(Exists("log/tls/admin/tls.key"));

  const std::string said =
      "tandemrun (pid " + pid +
      ") ended unexpectedly, and the kernel ended the processes of the job on this "
      "host [TD7013]";
  for (const char* command : {"status", "drain"}) {
    EXPECT_EQ(Tandem({command, dir_ + "/log", command[0] == 's' ? "--timeout_s=1" : "--wait_s=1"}),
              kExitConfig);
    EXPECT_THAT(Err(), HasSubstr(said)) << command;
  }
  EXPECT_EQ(Tandem({"events", dir_ + "/log"}), 0);
  EXPECT_THAT(Out(), HasSubstr("started"));
  EXPECT_THAT(Err(), HasSubstr(said));
  // After the death of the launcher, the next job can use the directory.
  trainer_script_ = Script("trainer", "true");
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), 0) << Err();
}

TEST_F(JobRecordTest, WhatAJobWritesIsItsOwners) {
  trainer_script_ = Script("trainer", "echo said; exit 3");
  const mode_t before = umask(0);
  Launch({"--mode=local"});
  EXPECT_EQ(WaitForLauncher(), 3);
  umask(before);
  EXPECT_EQ(std::filesystem::status(dir_ + "/log").permissions(),
            std::filesystem::perms::owner_all);
  for (const char* name : {"job.json", "events.jsonl", "workerlog.0", "error.json"}) {
    EXPECT_EQ(std::filesystem::status(dir_ + "/log/" + name).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write)
        << name;
  }
}

}  // namespace
}  // namespace tandem::deploy
