// Command lines of tandemrun: which lines are accepted, why others are rejected, and the resulting
// plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/error_text.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/options/launch_options.h"
#include "deploy/launch/rank_reports.h"

namespace tandem::deploy {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class LaunchOptionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/tandem_launch_options_XXXXXX";
    dir_ = mkdtemp(name);
    WriteJob("job.pbtxt", "name: \"j1\"\n");
    WriteJob("ps.pbtxt", "name: \"j2\" mode: PSERVER\n");
    WriteJob("my train.py", "");
    WriteJob("train.py", "");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void WriteJob(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
  }
  // Parses `line`, whose arguments are separated by spaces. Each @ is replaced by the test's
  // directory.
  StatusOr<deploy::LaunchOptions> Options(std::string line) {
    for (size_t at = 0; (at = line.find('@', at)) != std::string::npos;) line.replace(at, 1, dir_);
    TD_ASSIGN_OR_RETURN(const deploy::ParsedArgs args,
                        deploy::ParseLaunchArgs(absl::StrSplit(line, ' ', absl::SkipEmpty())));
    return deploy::MakeLaunchOptions(args, "/opt/tandem/bin");
  }
  StatusOr<deploy::LaunchPlan> Plan(const std::string& line, const deploy::Environment& env = {}) {
    TD_ASSIGN_OR_RETURN(deploy::LaunchOptions options, Options(line));
    return deploy::MakeLaunchPlan(options, env);
  }

  std::string dir_;
};

// The addresses in 240.0.0.0/4 are not assigned (RFC 1112), so they are never addresses of this
// host.

TEST_F(LaunchOptionsTest, AScriptGetsTheArgumentsAfterItAndItsRankFromTheEnvironment) {
  const auto plan = Plan("--servers=1 --workers=2 --tls @/train.py --servers=3 -x out.txt",
                         {{"PYTHONPATH", "/home/x"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->job_name, "train");
  ASSERT_EQ(plan->processes.size(), 3u);
  EXPECT_EQ(plan->processes[0].argv[0], "/opt/tandem/bin/tandem-pserver");
  const deploy::ProcessPlan& p = plan->processes[2];
  EXPECT_THAT(p.argv, ::testing::ElementsAre("python3", dir_ + "/train.py", "--servers=3", "-x",
                                             "out.txt"));
  EXPECT_EQ(p.env.at("PADDLE_TRAINER_ID"), "1");
  EXPECT_EQ(p.env.at("TANDEM_MODE"), "pserver");
  EXPECT_THAT(p.env.at("TANDEM_TLS_DIR"), HasSubstr("/tls/trainer"));
  EXPECT_EQ(p.env.count("PYTHONPATH"), 0u);  // no Python package is next to the programs
}

TEST_F(LaunchOptionsTest, ThePackageBesideTheProgramsIsFoundFirst) {
  std::filesystem::create_directories(dir_ + "/python/tandem");
  std::ofstream(dir_ + "/python/tandem/__init__.py") << "";
  std::filesystem::create_directories(dir_ + "/bin");
  auto args = deploy::ParseLaunchArgs({"--nproc=1", dir_ + "/my train.py"});
  ASSERT_TRUE(args.ok());
  auto options = deploy::MakeLaunchOptions(*args, dir_ + "/bin");
  ASSERT_TRUE(options.ok()) << options.status();
  const auto plan = deploy::MakeLaunchPlan(*options, {{"PYTHONPATH", "/home/x"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->job_name, "my_train");
  EXPECT_EQ(plan->processes[0].env.at("PYTHONPATH"), dir_ + "/python:/home/x");
}

TEST_F(LaunchOptionsTest, RefusedFlagsOfAScript) {
  const std::pair<const char*, const char*> cases[] = {
      {"--max_restarts=1 --nproc=2 @/train.py", "--max_restarts with a script"},
      {"--servers=1 --workers=1 --mode=hybrid --heter_workers=1 @/train.py",
       "--heter_workers with a script"},
      {"--nproc=2 --status_port=7000 @/train.py", "--status_port with a script"},
      {"--nproc=1:2 @/train.py", "(elastic) with a script"},
      {"--nproc=2 --epochs=3 @/train.py", "--epochs=3 is a field of a job"},
      {"--nproc=2 @/absent.py", "cannot open"},
  };
  for (const auto& [line, message] : cases) {
    const auto options = Options(line);
    ASSERT_FALSE(options.ok()) << line;
    EXPECT_THAT(ToString(options.status()), HasSubstr(message)) << line;
  }
}

TEST_F(LaunchOptionsTest, UnderstoodLines) {
  WriteJob("hybrid.pbtxt", "mode: HYBRID\n");
  struct Case {
    const char* line;
    deploy::LaunchMode mode;
    size_t servers, workers;
  };
  const Case cases[] = {
      {"@/job.pbtxt", deploy::LaunchMode::kLocal, 0, 1},
      {"--mode=local @/ps.pbtxt", deploy::LaunchMode::kLocal, 0, 1},
      {"--servers=2 --workers=3 @/job.pbtxt", deploy::LaunchMode::kPserver, 2, 3},
      {"--server_num 2 --worker-num 3 @/job.pbtxt", deploy::LaunchMode::kPserver, 2, 3},
      {"--mode=ps --servers=1 --workers=1 @/job.pbtxt", deploy::LaunchMode::kPserver, 1, 1},
      {"@/ps.pbtxt --servers=127.0.0.1:7001,127.0.0.1:7002 --workers=1",
       deploy::LaunchMode::kPserver, 2, 1},
      {"--mode=collective --nproc=2 @/job.pbtxt", deploy::LaunchMode::kCollective, 0, 2},
      {"--nproc=2:4 @/job.pbtxt", deploy::LaunchMode::kCollective, 0, 4},
      {"--nproc_per_node=2 @/ps.pbtxt", deploy::LaunchMode::kCollective, 0, 2},
      {"--mode=collective --gpus=0,1,2 @/job.pbtxt", deploy::LaunchMode::kCollective, 0, 3},
      {"--ips=127.0.0.1,localhost --nproc=2 @/job.pbtxt", deploy::LaunchMode::kCollective, 0, 4},
      {"--mode=hybrid --servers=2 --workers=3 @/job.pbtxt", deploy::LaunchMode::kHybrid, 2, 3},
      {"--servers=1 --workers=2 @/hybrid.pbtxt", deploy::LaunchMode::kHybrid, 1, 2},
      {"--mode=pserver --servers=1 --workers=2 @/hybrid.pbtxt", deploy::LaunchMode::kPserver, 1, 2},
      {"@/train.py", deploy::LaunchMode::kLocal, 0, 1},
      {"--nproc=2 @/train.py --nproc=9", deploy::LaunchMode::kCollective, 0, 2},
      {"--gpus=0,1 @/train.py", deploy::LaunchMode::kCollective, 0, 2},
      {"--servers=2 --workers=3 @/train.py", deploy::LaunchMode::kPserver, 2, 3},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const auto options = Options(c.line);
    ASSERT_TRUE(options.ok()) << options.status();
    EXPECT_EQ(options->mode, c.mode);
    EXPECT_EQ(options->pservers.endpoints.size(), c.servers);
    EXPECT_EQ(options->workers.endpoints.size(), c.workers);
  }
}

TEST_F(LaunchOptionsTest, RefusedLines) {
  WriteJob("bad_name.pbtxt", "name: \"../evil\"\n");
  WriteJob("hybrid.pbtxt", "mode: HYBRID\n");
  WriteJob("typo.pbtxt", "nmae: \"x\"\n");
  struct Case {
    const char* line;
    const char* message;
    int exit_code = kExitUsage;
  };
  const Case cases[] = {
      {"", "no job file or script given"},
      {"@/none.pbtxt", "none.pbtxt"},
      {"@/bad_name.pbtxt", "../evil"},
      {"@/hybrid.pbtxt", "hybrid mode needs --servers"},
      {"@/typo.pbtxt", "typo.pbtxt:1:1: error:"},
      {"@/job.pbtxt @/ps.pbtxt", "after --"},
      {"--sevrers=2 @/job.pbtxt", "hint: did you mean \"--servers\"?"},
      {"@/job.pbtxt --epoch=3", "hint: did you mean \"--epochs\"?"},
      {"@/job.pbtxt --epochs 3", "--epochs needs a value"},
      {"@/job.pbtxt --qwrtpsdf=fleet", "hint: write flags of tandem-trainer after --"},
      {"--servers=2 --server_num=3 --workers=1 @/job.pbtxt", "given twice"},
      {"--servers=0 --workers=1 @/job.pbtxt", "--servers: expected a whole number from 1"},
      {"--servers=99999999999 --workers=1 @/job.pbtxt", "--servers: expected a whole number"},
      {"--servers=a:b --workers=1 @/job.pbtxt", "expected HOST:PORT"},
      {"--servers=a:70000 --workers=1 @/job.pbtxt", "expected HOST:PORT"},
      {"--servers=2 @/job.pbtxt", "pserver mode needs --workers"},
      {"@/ps.pbtxt", "pserver mode needs --servers"},
      {"--mode=collective @/job.pbtxt", "collective mode needs --nproc"},
      {"--servers=2 --workers=2 --nproc=2 @/job.pbtxt",
       "--workers needs pserver mode, but --nproc needs collective"},
      {"--worker_num=2 --ips=a,b @/job.pbtxt", "--worker_num needs pserver mode, but --ips"},
      {"--mode=collective --servers=2 @/job.pbtxt", "contradicts --mode=collective"},
      {"--mode=pserver --nproc=2 @/job.pbtxt", "contradicts --mode=pserver"},
      {"--mode=local --workers=2 @/job.pbtxt", "contradicts --mode=local"},
      {"--status_port=0 --mode=local @/job.pbtxt", "--status_port: expected a whole number from 1"},
      {"--mode=hybrid @/job.pbtxt", "hybrid mode needs --servers"},
      {"--max_restarts=1 --mode=local @/job.pbtxt", "has no effect in local mode"},
      {"--servers=1 --workers=1 --durability=replayable @/job.pbtxt", "--pserver_data_dir=DIR"},
      {"--servers=1 --workers=1 --pserver_data_dir=d --durability=loged @/job.pbtxt",
       "hint: did you mean \"logged\"?"},
      {"--servers=1 --workers=1 --pserver_data_dir=d --keep_pushes_mb=9 @/job.pbtxt",
       "no effect without --durability=replayable"},
      {"--mode=collective --durability=logged @/job.pbtxt", "contradicts --mode=collective"},
      {"--mode=collective --standbys=1 @/job.pbtxt", "contradicts --mode=collective"},
      {"--servers=1 --workers=1 --standbys=1 @/job.pbtxt", "hint: set --pserver_data_dir=DIR"},
      {"--servers=1 --workers=1 --standbys=17 --pserver_data_dir=d @/job.pbtxt", "--standbys"},
      {"--servers=1 --workers=1 --standbys=1 --pserver_data_dir=d --durability=replayable "
       "@/job.pbtxt",
       "--standbys contradicts --durability=replayable"},
      {"--servers=1 --workers=1 --standbys=1 --pserver_data_dir=d --max_restarts=0 @/job.pbtxt",
       "--standbys contradicts --max_restarts"},
      {"--servers=127.0.0.1:7000,240.0.0.1:7000 --workers=1 --standbys=1 --pserver_data_dir=d "
       "@/job.pbtxt",
       "with pservers that do not run on this host is not implemented"},
      {"--servers=1 --workers=1 --replicas=1 @/job.pbtxt", "hint: set --pserver_data_dir=DIR"},
      {"--servers=1 --workers=1 --replicas=17 --pserver_data_dir=d @/job.pbtxt", "--replicas"},
      {"--servers=1 --workers=1 --replicas=1 --pserver_data_dir=d --durability=none @/job.pbtxt",
       "--replicas contradicts --durability=none, because replicas receive"},
      {"--servers=1 --workers=1 --resp_port=7000 --pserver_data_dir=d @/job.pbtxt",
       "--resp_port has no effect without --replicas"},
      {"--servers=127.0.0.1:7000,240.0.0.1:7000 --workers=1 --replicas=1 --pserver_data_dir=d "
       "@/job.pbtxt",
       "--replicas with pservers that do not run on this host is not implemented"},
      {"--servers=1 --workers=1 --replicas=1 --pserver_data_dir=d @/train.py",
       "--replicas with a script is not implemented"},
      {"--servers=1 --workers=1 --standbys=1 --pserver_data_dir=d @/train.py",
       "--standbys with a script is not implemented"},
      {"--mode=hybrid --nproc=2 @/job.pbtxt", "contradicts --mode=hybrid"},
      {"--mode=colective @/job.pbtxt", "hint: did you mean \"collective\"?"},
      {"--http_port=1 @/job.pbtxt", "--http_port is not implemented [TD1109]"},
      {"--heter_workers=2 @/job.pbtxt", "hybrid mode needs --servers"},
      {"--heter_workers=2 --nproc=2 @/job.pbtxt", "--heter_workers needs pserver mode"},
      {"--mode=pserver --servers=1 --workers=1 --heter_workers=1 @/job.pbtxt",
       "--heter_workers needs hybrid mode, which contradicts --mode=pserver"},
      {"--servers=1 --workers=3 --heter_workers=2 @/job.pbtxt",
       "--heter_workers: 3 trainers cannot be divided equally among 2 heter workers [TD1004]"},
      {"--servers=1 --workers=1 --heter_place=cuda @/job.pbtxt",
       "--heter_place has no effect without --heter_workers"},
      {"--servers=1 --workers=1 --heter_workers=0 @/job.pbtxt",
       "--heter_workers: expected a whole number from 1"},
      {"--servers=1 --workers=1 --heter_workers=1 --max_restarts=1 @/job.pbtxt",
       "--heter_workers together with --max_restarts is not implemented"},
      {"--servers=1 --workers=1 --heter_workers=1 --gpus=0,1 @/job.pbtxt",
       "--heter_workers together with --gpus is not implemented"},
      {"--tls --mode=local @/job.pbtxt", "mode local has no connections that TLS could encrypt"},
      {"--tls --tls_dir=x --servers=1 --workers=1 @/job.pbtxt",
       "--tls and --tls_dir exclude each other"},
      {"--quiet=maybe @/job.pbtxt", "takes no value"},
      {"@/job.pbtxt --log_dir", "needs a value"},
      {"--gpus=0,1,2 --nproc=2 @/job.pbtxt", "3 cards for 2 workers"},
      {"--ips=240.0.0.1,240.0.0.2 --nproc=1 @/job.pbtxt", "is not one of the given hosts"},
      {"--ips=127.0.0.1:80 --nproc=1 @/job.pbtxt", "hosts without ports"},
      {"--nproc=0:2 @/job.pbtxt", "--nproc: expected N or MIN:MAX with 1 <= MIN"},
      {"--nproc=3:2 @/job.pbtxt", "--nproc: expected N or MIN:MAX"},
      {"--nproc=2: @/job.pbtxt", "--nproc: expected N or MIN:MAX"},
      {"--nproc=1:2:3 @/job.pbtxt", "--nproc: expected N or MIN:MAX"},
      {"--nproc=1:99999 @/job.pbtxt", "MAX <= 1024, got \"1:99999\""},
      {"--nproc=1:2 --ips=127.0.0.1,localhost @/job.pbtxt", "on a single host"},
      {"--nproc=1:2 --gpus=0,1 @/job.pbtxt",
       "--nproc=1:2 needs CPU ranks on a single host [TD1005]"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.line);
    const auto options = Options(c.line);
    ASSERT_FALSE(options.ok());
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(c.message));
    EXPECT_EQ(ExitCodeOf(options.status()), c.exit_code);
  }
}

TEST_F(LaunchOptionsTest, HintStandsOnALineOfItsOwn) {
  const auto options = Options("--sevrers=2 @/job.pbtxt");
  EXPECT_EQ(ErrorText("tandemrun", options.status()),
            "tandemrun: error: unknown flag \"--sevrers\" [TD1002] (INVALID_ARGUMENT)\nhint: did "
            "you mean "
            "\"--servers\"?\n");
}

TEST_F(LaunchOptionsTest, EveryProcessHasAPortOfItsOwn) {
  const auto plan = Plan("--servers=8 --workers=8 --tls --log_dir=@/log @/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::set<int> used;
  for (const deploy::ProcessPlan& p : plan->processes) used.insert(p.endpoint.port);
  EXPECT_EQ(used.size(), 16u);
}

// On one host pservers listen on Unix sockets and use TCP ports only if an option names hosts or
// ports.
TEST_F(LaunchOptionsTest, PserversOfOneHostHaveUnixSockets) {
  const auto plan = Plan("--servers=2 --workers=2 @/job.pbtxt", {{"XDG_RUNTIME_DIR", dir_}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(plan->socket_dir.starts_with(dir_ + "/tandem-")) << plan->socket_dir;
  EXPECT_EQ(plan->pservers,
            "unix:" + plan->socket_dir + "/pserver-0,unix:" + plan->socket_dir + "/pserver-1");
  EXPECT_FALSE(std::filesystem::exists(plan->socket_dir)) << "nothing is made before PrepareFiles";
  const deploy::Environment& env = plan->processes[1].env;
  EXPECT_EQ(env.at("POD_IP") + ":" + env.at("PADDLE_PORT"), plan->processes[1].endpoint.Text());
  std::filesystem::permissions(dir_, std::filesystem::perms(0755));
  const auto others = Plan("--servers=1 --workers=1 @/job.pbtxt", {{"XDG_RUNTIME_DIR", dir_}});
  EXPECT_TRUE(others->socket_dir.starts_with("/tmp/tandem-")) << "a folder that others may read";
  for (const char* tcp :
       {"--servers=1 --workers=1 --start_port=7000 @/job.pbtxt",
        "--servers=1 --workers=1 --tls --log_dir=@/log @/job.pbtxt",
        "--servers=127.0.0.1 --workers=1 @/job.pbtxt",
        "--servers=1 --workers=127.0.0.1,240.0.0.7 --secret_file=s @/job.pbtxt"}) {
    const auto with_port = Plan(tcp);
    ASSERT_TRUE(with_port.ok()) << with_port.status();
    EXPECT_EQ(with_port->socket_dir, "") << tcp;
    EXPECT_GT(with_port->processes[0].endpoint.port, 0) << tcp;
  }
  const auto both = Plan("--servers=unix:/run/x/a,127.0.0.1 --workers=1 @/job.pbtxt");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->pservers, HasSubstr("unix:/run/x/a,127.0.0.1:"));
  EXPECT_THAT(
      std::string(Plan("--servers=unix:/run/x/a --workers=1 --tls @/job.pbtxt").status().message()),
      HasSubstr("is a Unix-domain socket, which does not support TLS"));
}

TEST_F(LaunchOptionsTest, TakenPortIsNamed) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const auto plan = Plan("--servers=127.0.0.1:" + port + " --workers=1 @/job.pbtxt");
  EXPECT_EQ(plan.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("port " + port));
  close(fd);
}

TEST_F(LaunchOptionsTest, OnManyHostsOnlyLocalProcessesAreStarted) {
  const auto plan = Plan(
      "--ips=240.0.0.7,127.0.0.1 --nproc=2 --secret_file=@/s --log_dir=@/log @/job.pbtxt -- "
      "--epochs=3");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->processes.size(), 2u);
  const deploy::Environment& env = plan->processes[1].env;
  EXPECT_EQ(env.at("RANK"), "3");
  EXPECT_EQ(env.at("LOCAL_RANK"), "1");
  EXPECT_EQ(env.at("LOCAL_WORLD_SIZE"), "2");
  EXPECT_EQ(env.at("TANDEM_RENDEZVOUS"), "240.0.0.7:6170");
  EXPECT_EQ(env.at("PADDLE_TRAINER_ENDPOINTS"),
            "240.0.0.7:6170,240.0.0.7:6171,127.0.0.1:6170,127.0.0.1:6171");
  EXPECT_EQ(env.at("TANDEM_SECRET_FILE"), dir_ + "/s");
  EXPECT_EQ(plan->processes[1].argv.back(), "--epochs=3");
  EXPECT_TRUE(plan->hosts.remote_workers);
}

// The launcher passes the world file and the knob to the ranks of an elastic job.
TEST_F(LaunchOptionsTest, RanksThatMayBeLost) {
  const auto plan = Plan("--nproc=2:3 --log_dir=@/log @/job.pbtxt -- --epochs=3");
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->processes.size(), 3u);
  EXPECT_TRUE(plan->elastic());
  EXPECT_EQ(plan->ranks_least, 2);
  for (const deploy::ProcessPlan& p : plan->processes) {
    EXPECT_EQ(p.env.at("TANDEM_WORLD_FILE"), dir_ + "/log/world");
    EXPECT_EQ(p.env.at("TANDEM_LAUNCHER"), dir_ + "/log/silent");
    EXPECT_THAT(p.argv, Contains("--elastic=true"));
    EXPECT_EQ(p.argv.back(), "--epochs=3");
  }
  EXPECT_EQ(deploy::WithoutRanks(plan->processes[0].env).count("TANDEM_WORLD_FILE"), 0u);
  const auto fixed = Plan("--nproc=3 --log_dir=@/log @/job.pbtxt");
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_FALSE(fixed->elastic());
  EXPECT_EQ(fixed->processes[0].env.count("TANDEM_WORLD_FILE"), 0u);
}

TEST_F(LaunchOptionsTest, HeterWorkersAreTheLastRanks) {
  const auto plan = Plan(
      "--servers=2 --workers=2 --heter_workers=127.0.0.1:7001,127.0.0.1:7002 --log_dir=@/log "
      "@/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->mode, deploy::LaunchMode::kHybrid);
  EXPECT_EQ(plan->trainers, 2) << "pservers wait for trainers alone";
  ASSERT_EQ(plan->processes.size(), 6u);
  EXPECT_THAT(plan->processes[0].argv, Contains("--trainers=2"));
  const deploy::ProcessPlan &trainer = plan->processes[3], &heter = plan->processes[4];
  EXPECT_EQ(trainer.Name(), "trainer 1");
  EXPECT_EQ(trainer.log_file, dir_ + "/log/workerlog.1");
  EXPECT_EQ(heter.Name(), "heter worker 2");
  EXPECT_EQ(heter.log_file, dir_ + "/log/heterlog.2");
  EXPECT_EQ(heter.endpoint.Text(), "127.0.0.1:7001");
  EXPECT_EQ(heter.env.at("RANK"), "2");
  for (const deploy::ProcessPlan* p : {&trainer, &heter}) {
    EXPECT_EQ(p->env.at("WORLD_SIZE"), "4");
    EXPECT_EQ(p->env.at("TANDEM_HETER_WORKERS"), "2");
  }
  EXPECT_THAT(deploy::Describe(*plan),
              HasSubstr("mode hybrid: 2 pservers, 2 trainers, 2 heter workers; logs in"));
  EXPECT_EQ(deploy::WithoutRanks(heter.env).count("TANDEM_HETER_WORKERS"), 0u);
}

TEST_F(LaunchOptionsTest, HeterWorkersMayBeFewerAndElsewhere) {
  const auto plan = Plan(
      "--mode=hybrid --servers=1 --workers=4 --heter_workers=2 --heter_place=cuda --log_dir=@/log "
      "@/job.pbtxt -- --epochs=2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->trainers, 4);
  ASSERT_EQ(plan->processes.size(), 7u);
  for (const int rank : {0, 3, 4, 5}) {
    const deploy::ProcessPlan& p = plan->processes[static_cast<size_t>(rank) + 1];
    EXPECT_EQ(p.heter, rank >= 4);
    EXPECT_EQ(std::count(p.argv.begin(), p.argv.end(), "--place=cuda"), rank >= 4 ? 1 : 0);
    EXPECT_EQ(p.env.at("TANDEM_HETER_WORKERS"), "2");
  }
}

TEST_F(LaunchOptionsTest, RanksMeetWhereTheyAreTold) {
  const auto plan = Plan(
      "--ips=240.0.0.7,127.0.0.1 --nproc=1 --secret_file=@/s --rendezvous=file:///mnt/jobs "
      "@/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const deploy::Environment& env = plan->processes[0].env;
  EXPECT_EQ(env.at("TANDEM_RENDEZVOUS"), "file:///mnt/jobs");
  EXPECT_EQ(env.at("TANDEM_LISTEN_HOST"), "127.0.0.1");
}

TEST_F(LaunchOptionsTest, TlsIsHandedToEachRole) {
  const auto given = Plan(
      "--servers=1 --workers=1 --tls_dir=/pki/job --insecure_allow_network "
      "@/job.pbtxt");
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_THAT(given->processes[0].argv, Contains("--tls_dir=/pki/job/pserver"));
  EXPECT_THAT(given->processes[1].argv, Contains("--tls_dir=/pki/job/trainer"));
  EXPECT_THAT(given->processes[0].argv, Contains("--insecure_allow_network"));
  const auto made = Plan("--servers=1 --workers=1 --tls --log_dir=@/log @/job.pbtxt");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->processes[1].argv, Contains("--tls_dir=" + dir_ + "/log/tls/trainer"));
  const auto many = Plan(
      "--servers=127.0.0.1:7000,240.0.0.2:7000 --workers=1 --tls "
      "--secret_file=@/s @/job.pbtxt");
  EXPECT_THAT(std::string(many.status().message()), HasSubstr("hint: run tandem certs init"));
}

TEST_F(LaunchOptionsTest, ManyHostsNeedACommonSecret) {
  const std::string line = "--ips=127.0.0.1,240.0.0.2 --nproc=1 @/job.pbtxt";
  const auto plan = Plan(line);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("--secret_file"));
  EXPECT_TRUE(Plan(line, {{"TANDEM_SECRET_FILE", "/etc/secret"}}).ok());
}

TEST_F(LaunchOptionsTest, UserEnvironmentWins) {
  const auto plan = Plan("--servers=1 --workers=1 @/job.pbtxt",
                         {{"OMP_WAIT_POLICY", "active"}, {"TANDEM_SECRET_FILE", "/etc/secret"}});
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const deploy::ProcessPlan& p : plan->processes) {
    EXPECT_EQ(p.env.count("OMP_WAIT_POLICY"), 0u);
    EXPECT_EQ(p.env.count("OMP_NUM_THREADS"), 0u);
    EXPECT_EQ(p.env.count("GOMP_SPINCOUNT"), 0u);
    EXPECT_EQ(p.env.at("TANDEM_SECRET_FILE"), "/etc/secret");
  }
  EXPECT_FALSE(plan->make_secret);
}

TEST_F(LaunchOptionsTest, OnlyATrainerThatIsAloneSpins) {
  const auto spins = [this](const std::string& line, const deploy::Environment& env) {
    const auto plan = Plan(line, env);
    CHECK(plan.ok()) << plan.status();
    std::string count;
    for (const deploy::ProcessPlan& p : plan->processes) {
      EXPECT_EQ(p.env.at("OMP_WAIT_POLICY"), "passive");
      const auto set = p.env.find("GOMP_SPINCOUNT");
      count += set == p.env.end() ? "- " : set->second + " ";
    }
    return count;
  };
  EXPECT_EQ(spins("--servers=1 --workers=1 @/job.pbtxt", {}), "- 3000 ");
  EXPECT_EQ(spins("--servers=1 --workers=2 @/job.pbtxt", {}), "- - - ");
  EXPECT_EQ(spins("--mode=collective --nproc=2 @/job.pbtxt", {}), "- - ");
  EXPECT_EQ(spins("--servers=1 --workers=1 @/job.pbtxt", {{"GOMP_SPINCOUNT", "7"}}), "- - ");
}

TEST_F(LaunchOptionsTest, RanksOfAnotherLauncherAreDropped) {
  const deploy::Environment env = deploy::WithoutRanks({{"TANDEM_RANK", "3"},
                                                        {"PADDLE_TRAINER_ENDPOINTS", "a:1"},
                                                        {"MASTER_ADDR", "a"},
                                                        {"PATH", "/bin"},
                                                        {"TANDEM_SECRET_FILE", "/etc/secret"}});
  EXPECT_EQ(env, (deploy::Environment{{"PATH", "/bin"}, {"TANDEM_SECRET_FILE", "/etc/secret"}}));
}

TEST_F(LaunchOptionsTest, GpusBecomePlaces) {
  const auto plan = Plan("--mode=collective --gpus=2,5 @/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->processes[1].argv.back(), "--place=cuda:5");
  EXPECT_EQ(plan->processes[1].env.at("FLAGS_selected_gpus"), "5");
}

TEST_F(LaunchOptionsTest, StatusPagesBeginWithTheTrainers) {
  const auto plan = Plan("--status_port=8000 --servers=1 --workers=2 @/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->processes[0].role, deploy::Role::kPserver);
  EXPECT_EQ(plan->processes[0].status_page, "http://127.0.0.1:8002/");
  EXPECT_EQ(plan->processes[1].status_page, "http://127.0.0.1:8000/");
  EXPECT_EQ(plan->processes[2].argv.back(), "--status_listen=127.0.0.1:8001");
  EXPECT_THAT(deploy::Describe(*plan), HasSubstr("status  http://127.0.0.1:8001/\n"));
  EXPECT_THAT(
      std::string(
          Plan("--status_port=65535 --servers=1 --workers=2 @/job.pbtxt").status().message()),
      HasSubstr("too few ports"));
}

constexpr char kGolden[] = R"(job j1, mode pserver: 1 pserver, 1 trainer; logs in ./log-j1

pserver 0  unix:S/pserver-0
  command /opt/tandem/bin/tandem-pserver --listen=unix:S/pserver-0 --index=0 --job=j1 --trainers=1
  log     ./log-j1/serverlog.0
  env     OMP_WAIT_POLICY=passive
  env     PADDLE_PORT=S/pserver-0
  env     PADDLE_PSERVERS_IP_PORT_LIST=unix:S/pserver-0
  env     PADDLE_TRAINERS_NUM=1
  env     PADDLE_TRAINER_ENDPOINTS=127.0.0.1:PORT
  env     POD_IP=unix
  env     TANDEM_JOB=j1
  env     TANDEM_LAUNCHER=./log-j1/silent
  env     TANDEM_PSERVERS=unix:S/pserver-0
  env     TANDEM_SECRET_FILE=./log-j1/job.secret
  env     TANDEM_SERVER_INDEX=0
  env     TRAINING_ROLE=PSERVER
  env     WORLD_SIZE=1

trainer 0  127.0.0.1:PORT
  command /opt/tandem/bin/tandem-trainer --job_file=DIR/job.pbtxt --mode=pserver --epochs=2
  log     ./log-j1/workerlog.0
  env     GOMP_SPINCOUNT=3000
  env     LOCAL_RANK=0
  env     LOCAL_WORLD_SIZE=1
  env     OMP_WAIT_POLICY=passive
  env     PADDLE_CURRENT_ENDPOINT=127.0.0.1:PORT
  env     PADDLE_PSERVERS_IP_PORT_LIST=unix:S/pserver-0
  env     PADDLE_TRAINERS_NUM=1
  env     PADDLE_TRAINER_ENDPOINTS=127.0.0.1:PORT
  env     PADDLE_TRAINER_ID=0
  env     RANK=0
  env     TANDEM_JOB=j1
  env     TANDEM_LAUNCHER=./log-j1/silent
  env     TANDEM_PSERVERS=unix:S/pserver-0
  env     TANDEM_SECRET_FILE=./log-j1/job.secret
  env     TRAINING_ROLE=TRAINER
  env     WORLD_SIZE=1
)";

TEST_F(LaunchOptionsTest, DryRun) {
  const auto plan = Plan("--servers=1 --workers=1 @/job.pbtxt -- --epochs=2");
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string text = deploy::Describe(*plan);
  ASSERT_NE(plan->socket_dir, "");
  for (size_t at = 0; (at = text.find(plan->socket_dir)) != std::string::npos;) {
    text.replace(at, plan->socket_dir.size(), "S");
  }
  for (const deploy::ProcessPlan& p : plan->processes) {
    if (p.endpoint.is_unix()) continue;
    const std::string port = std::to_string(p.endpoint.port);
    for (size_t at = 0; (at = text.find(port)) != std::string::npos;) {
      text.replace(at, port.size(), "PORT");
    }
  }
  const size_t at = text.find(dir_);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, dir_.size(), "DIR");
  EXPECT_EQ(text, kGolden);
}

TEST_F(LaunchOptionsTest, WordsOfRanksMayComeInPieces) {
  deploy::RankReportFifo fifo;
  ASSERT_TRUE(fifo.Open(dir_ + "/fifo").ok());
  const auto say = [&](const std::string& text) {
    ASSERT_EQ(write(fifo.fd(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  };
  say("nonsense\nready\nwaits trainer 5\nhere trainer\nwaits trainer 1 trainer 3 15");
  const deploy::RankReports nothing = fifo.Read();
  EXPECT_TRUE(nothing.waits.empty());
  EXPECT_TRUE(nothing.here.empty());
  EXPECT_TRUE(nothing.ready.empty());
  say("00 20 30\nready 2\nhere pserver 7\nwaits caller 0 pserver 4 20 9 9\nwai");
  const deploy::RankReports words = fifo.Read();
  EXPECT_EQ(words.ready, std::vector<int>{2});
  ASSERT_EQ(words.here.size(), 1u);
  EXPECT_EQ(words.here[0].kind, "pserver");
  EXPECT_EQ(words.here[0].number, 7);
  ASSERT_EQ(words.waits.size(), 2u);
  EXPECT_EQ(words.waits[0].who.number, 1);
  EXPECT_EQ(words.waits[0].whom.number, 3);
  EXPECT_EQ(words.waits[0].waited, std::chrono::milliseconds(1500));
  EXPECT_EQ(words.waits[0].limit, std::chrono::milliseconds(20));
  EXPECT_EQ(words.waits[0].start_limit, std::chrono::milliseconds(30));
  EXPECT_EQ(words.waits[1].whom.kind, "pserver");
}

TEST_F(LaunchOptionsTest, StandbysAreFurtherProcessesOfTheirPserver) {
  const auto plan =
      Plan("--servers=2 --workers=1 --standbys=2 --pserver_data_dir=/d --log_dir=/l @/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->Counts(", "), "2 pservers, 4 standbys, 1 trainer");
  std::vector<std::string> names, logs;
  for (const deploy::ProcessPlan& p : plan->processes) {
    names.push_back(p.Name());
    logs.push_back(p.log_file);
  }
  EXPECT_THAT(names,
              testing::ElementsAre("pserver 0 (member 0)", "pserver 0 (member 1)",
                                   "pserver 0 (member 2)", "pserver 1 (member 0)",
                                   "pserver 1 (member 1)", "pserver 1 (member 2)", "trainer 0"));
  EXPECT_THAT(logs, testing::ElementsAre("/l/serverlog.0", "/l/serverlog.0.member-1",
                                         "/l/serverlog.0.member-2", "/l/serverlog.1",
                                         "/l/serverlog.1.member-1", "/l/serverlog.1.member-2",
                                         "/l/workerlog.0"));
  const deploy::ProcessPlan& last = plan->processes[5];
  for (const char* flag : {"--data_dir=/d/pserver-1.member-2", "--durability=logged",
                           "--standbys=2", "--member=2", "--index=1"}) {
    EXPECT_THAT(last.argv, Contains(flag));
  }
  EXPECT_EQ(last.endpoint.Text(), plan->processes[3].endpoint.Text());
  EXPECT_EQ(Options("--servers=1 --workers=1 --standbys=1 --pserver_data_dir=/d @/job.pbtxt")
                ->supervision.max_restarts,
            10);
}

TEST_F(LaunchOptionsTest, ReplicasFollowTheirPserverAtTheirOwnAddresses) {
  const auto plan = Plan(
      "--servers=2 --workers=1 --replicas=2 --resp_port=7300 --status_port=8000 "
      "--pserver_data_dir=/d --log_dir=/l @/job.pbtxt");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->Counts(", "), "2 pservers, 4 replicas, 1 trainer");
  std::vector<std::string> names, logs, redis;
  for (const deploy::ProcessPlan& p : plan->processes) {
    if (p.role != deploy::Role::kReplica) continue;
    names.push_back(p.Name());
    logs.push_back(p.log_file);
    redis.push_back(std::to_string(p.resp_port));
  }
  EXPECT_THAT(names, testing::ElementsAre("replica 0 of pserver 0", "replica 0 of pserver 1",
                                          "replica 1 of pserver 0", "replica 1 of pserver 1"));
  EXPECT_THAT(logs, testing::ElementsAre("/l/serverlog.0.replica-0", "/l/serverlog.1.replica-0",
                                         "/l/serverlog.0.replica-1", "/l/serverlog.1.replica-1"));
  EXPECT_THAT(redis, testing::ElementsAre("7300", "7301", "7302", "7303"));
  const deploy::ProcessPlan& last = plan->processes[5];
  for (const std::string& flag :
       {std::string("--data_dir=/d/pserver-1.replica-1"), std::string("--durability=logged"),
        std::string("--index=1"), std::string("--resp_listen=127.0.0.1:7303"),
        "--replica_of=" + plan->processes[1].endpoint.Text(),
        "--listen=unix:" + plan->socket_dir + "/replica-1-1",
        std::string("--status_listen=127.0.0.1:8006")}) {
    EXPECT_THAT(last.argv, Contains(flag));
  }
  EXPECT_FALSE(last.env.contains("TANDEM_LAUNCHER"));
  EXPECT_EQ(Options("--servers=1 --workers=1 --replicas=1 --pserver_data_dir=/d @/job.pbtxt")
                ->supervision.max_restarts,
            10);
}

// A replica has the settings of its pserver for rows outside memory, but its own directory.
TEST_F(LaunchOptionsTest, ReplicasWithPortsCountAfterTheTrainers) {
  const auto plan = Plan(
      "--servers=1 --workers=2 --replicas=1 --start_port=7000 --pserver_data_dir=/d --log_dir=/l "
      "@/job.pbtxt -- --table_memory_mb=64 --rocksdb_path=/fast");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const deploy::ProcessPlan& replica = plan->processes[1];
  EXPECT_EQ(replica.endpoint.Text(), "127.0.0.1:7003");
  EXPECT_THAT(replica.argv, Contains("--table_memory_mb=64"));
  EXPECT_THAT(replica.argv, Contains("--rocksdb_path=/fast.replica-0"));
}

}  // namespace
}  // namespace tandem::deploy
