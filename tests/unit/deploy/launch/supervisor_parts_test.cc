// Tests the parts of a supervisor without a job: the order in which it stops processes, the
// members, the waits, and the first failure.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "common/launcher/elastic_world.h"
#include "common/os/ports.h"
#include "deploy/launch/first_failure.h"
#include "deploy/launch/hosts/server_group.h"
#include "deploy/launch/job_process.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/job_record.h"
#include "deploy/launch/pserver_sockets.h"
#include "deploy/launch/replica_restarts.h"
#include "deploy/launch/stop_sequence.h"
#include "deploy/launch/world_membership.h"

namespace tandem::deploy {
namespace {

using std::chrono::seconds;
using Phase = StopSequence::Phase;
using Request = StopSequence::Request;

const Time kStart = Time() + seconds(1000);

TEST(StopSequenceTest, TrainersThenPserversEachWithTheGraceTime) {
  StopSequence stop(seconds(10));
  EXPECT_FALSE(stop.stopping());
  EXPECT_FALSE(stop.TakeKill(kStart + seconds(1000000)));
  EXPECT_EQ(stop.TakeSignal(SIGTERM, kStart), Request::kStop);
  EXPECT_TRUE(stop.stopping());
  stop.StopTrainers(kStart);
  EXPECT_EQ(stop.phase(), Phase::kStoppingTrainers);
  EXPECT_FALSE(stop.TakeKill(kStart + seconds(9)));
  EXPECT_TRUE(stop.TakeKill(kStart + seconds(10)));
  EXPECT_FALSE(stop.kills_pservers());
  EXPECT_FALSE(stop.TakeKill(kStart + seconds(11))) << "a kill is due once";
  stop.StopPservers(kStart + seconds(12));
  EXPECT_EQ(stop.kill_at(), kStart + seconds(22));
  EXPECT_TRUE(stop.TakeKill(kStart + seconds(22)));
  EXPECT_TRUE(stop.kills_pservers());
  EXPECT_EQ(stop.signal(), SIGTERM);
}

TEST(StopSequenceTest, SecondSignalKillsAllAtOnce) {
  StopSequence stop(seconds(10));
  EXPECT_EQ(stop.TakeSignal(SIGINT, kStart), Request::kStop);
  stop.StopTrainers(kStart);
  // The same Ctrl-C may arrive twice: from the terminal and from a launcher.
  EXPECT_EQ(stop.TakeSignal(SIGINT, kStart), Request::kRepeated);
  EXPECT_FALSE(stop.kill_now());
  EXPECT_EQ(stop.TakeSignal(SIGTERM, kStart + seconds(5)), Request::kKill);
  EXPECT_TRUE(stop.kill_now());
  EXPECT_TRUE(stop.TakeKill(kStart + seconds(5)));
  EXPECT_TRUE(stop.kills_pservers());
  EXPECT_EQ(stop.signal(), SIGINT);
}

class SupervisorPartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path().string() + "/parts_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Starts a shell command as a trainer or pserver process.
  JobProcess* Run(Role role, int rank, const std::string& command) {
    plans_.push_back(std::make_unique<ProcessPlan>());
    ProcessPlan& plan = *plans_.back();
    plan.role = role;
    plan.rank = rank;
    plan.log_file = dir_ + "/" + plan.Name();
    auto process = *JobProcess::Open(plan);
    SpawnRequest request{.argv = {"/bin/sh", "-c", command}, .env = {}};
    request.stdout_fd = request.stderr_fd = process->log->fd();
    EXPECT_TRUE(process->Start(request).ok());
    JobProcess* const started = process.get();
    processes_.Add(std::move(process));
    return started;
  }
  void AwaitEnd(JobProcess* process) {
    for (int i = 0; i < 2000 && !process->process->Poll(); ++i) {
      processes_.Poll({}, /*timeout_ms=*/5);
    }
    ASSERT_FALSE(process->running());
  }

  std::string dir_;
  std::vector<std::unique_ptr<ProcessPlan>> plans_;
  JobProcesses processes_{/*callers_per_worker=*/2};
};

TEST_F(SupervisorPartsTest, AnOlderWorldDoesNotReplaceANewerOne) {
  const std::string file = dir_ + "/world";
  WorldMembership world(file, 2);
  ASSERT_TRUE(world.Publish(1, {0, 1, 2}, /*over=*/false).ok());
  ASSERT_TRUE(world.Publish(2, {0, 2}, /*over=*/true).ok());
  ASSERT_TRUE(world.Publish(1, {0, 1, 2}, /*over=*/false).ok());
  const auto read = ReadElasticWorld(file);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, (ElasticWorld{2, 2, true, {0, 2}}));
  EXPECT_FALSE(WorldMembership("", 0).elastic());
}

TEST_F(SupervisorPartsTest, AWaitIsWarnedOfOnceAndThenFatal) {
  JobProcess process;
  process.started = kStart;
  ProcessWait wait;
  wait.limit = seconds(30);
  wait.start_limit = seconds(60);
  const auto judge = [&](int waited, int now) {
    wait.waited = seconds(waited);
    return process.Judge(wait, kStart + seconds(now));
  };
  EXPECT_EQ(judge(20, 10), WaitVerdict::kIgnore) << "the wait began before this process";
  EXPECT_EQ(judge(20, 25), WaitVerdict::kWarn);
  EXPECT_EQ(judge(40, 45), WaitVerdict::kIgnore) << "the same wait, and it has not joined yet";
  process.here = true;
  EXPECT_EQ(judge(40, 45), WaitVerdict::kKill);
  EXPECT_EQ(judge(5, 60), WaitVerdict::kWarn) << "another wait";
  process.unresponsive = seconds(1);
  EXPECT_EQ(judge(50, 60), WaitVerdict::kIgnore) << "it is killed already";
}

TEST_F(SupervisorPartsTest, ReportsNameRunningProcesses) {
  JobProcess* const trainer = Run(Role::kTrainer, 1, "exit 0");
  EXPECT_EQ(processes_.Find({"trainer", 1}), trainer);
  EXPECT_EQ(processes_.Find({"caller", 3}), trainer) << "the second replica of trainer 1";
  EXPECT_EQ(processes_.Find({"pserver", 1}), nullptr);
  EXPECT_EQ(processes_.NameOf({"pserver", 1}), "pserver 1");
  AwaitEnd(trainer);
  EXPECT_EQ(processes_.Find({"trainer", 1}), nullptr);
  EXPECT_TRUE(processes_.Has(Role::kTrainer));
  EXPECT_EQ(processes_.CollectEnded(), std::vector<JobProcess*>{trainer});
  EXPECT_TRUE(processes_.CollectEnded().empty()) << "an end is reported once";
}

TEST_F(SupervisorPartsTest, TheCauseTakesPrecedence) {
  const std::string lost_peer = "exit " + std::to_string(kExitLostPeer);
  JobProcess* const first = Run(Role::kTrainer, 0, lost_peer);
  JobProcess* const second = Run(Role::kTrainer, 1, "exit 3");
  AwaitEnd(first);
  AwaitEnd(second);
  FirstFailure failure(SteadyNow());
  failure.BlameOneOf({});
  EXPECT_FALSE(failure.known());
  failure.BlameOneOf({first, second});
  ASSERT_TRUE(failure.known());
  EXPECT_EQ(failure.get().rank, 1);
  failure.BlameOneOf({first});
  EXPECT_EQ(failure.get().rank, 1) << "the first failure stays";
}

TEST_F(SupervisorPartsTest, AnUnresponsiveTrainerIsTheCauseOfALostPeer) {
  JobProcess* const lost = Run(Role::kTrainer, 0, "exit " + std::to_string(kExitLostPeer));
  JobProcess* const hangs = Run(Role::kTrainer, 1, "while :; do sleep 1; done");
  AwaitEnd(lost);
  FirstFailure failure(SteadyNow());
  failure.Adopt(failure.Describe(*lost));
  failure.PreferUnresponsive(processes_, seconds(10));
  EXPECT_EQ(failure.get().rank, 1);
  EXPECT_EQ(failure.get().silent_s, 10);
  processes_.Signal(Role::kTrainer, SIGKILL);
  AwaitEnd(hangs);
  EXPECT_TRUE(hangs->stuck);
}

TEST(ReplicaRestartsTest, ThePauseDoublesAndBeginsAgainAfterAStableRun) {
  ProcessPlan plan, other;
  plan.role = other.role = Role::kReplica;
  plan.replica = 0;
  other.replica = 1;
  ReplicaRestarts restarts;
  EXPECT_TRUE(restarts.TakeDue(kStart + seconds(1000)).empty());
  Time now = kStart;
  for (const int pause : {1, 2, 4, 8, 16, 32, 60, 60, 60}) {
    EXPECT_EQ(restarts.OnEnded(plan, seconds(1), now), seconds(pause));
    EXPECT_TRUE(restarts.TakeDue(now + seconds(pause) - std::chrono::milliseconds(1)).empty());
    now += seconds(pause);
    EXPECT_EQ(restarts.TakeDue(now), std::vector<const ProcessPlan*>{&plan});
    EXPECT_TRUE(restarts.TakeDue(now + seconds(1000)).empty()) << "a start is due once";
  }
  EXPECT_EQ(restarts.OnEnded(other, seconds(1), now), seconds(1));
  EXPECT_EQ(restarts.OnEnded(plan, ReplicaRestarts::kStable, now), seconds(1));
}

// A member that ends has closed its socket. It is killed if the end takes too long.
TEST(ServerGroupEndTest, AMemberThatDoesNotEndHangs) {
  ServerGroup group(0, 2);
  for (const int member : {0, 1}) group.OnStarted(member);
  group.OnClosed(1);
  for (int i = 0; i < ServerGroup::kUnansweredMaxEnd; ++i) {
    (void)group.Ping();
    EXPECT_FALSE(group.Hangs(1)) << i;
  }
  (void)group.Ping();
  EXPECT_TRUE(group.Hangs(1));
  EXPECT_FALSE(group.Hangs(0)) << "it has not replied yet, because it restores its state";
  EXPECT_EQ(group.Awaited(), "member 0 has not replied, member 1 ends");
  group.OnEnded(1);
  EXPECT_EQ(group.Awaited(), "member 0 has not replied, member 1 does not run");
}

// Other programs cannot get the ports of a replica while it does not run. The replica can.
TEST(PserverSocketsTest, PortsOfReplicasAreReserved) {
  const int first = *FreePorts("127.0.0.1", 2);
  LaunchPlan plan;
  plan.processes.emplace_back();
  ProcessPlan& replica = plan.processes.back();
  replica.role = Role::kReplica;
  replica.replica = 0;
  replica.endpoint = {"127.0.0.1", first, true};
  replica.resp_port = first + 1;
  PserverSockets sockets;
  ASSERT_TRUE(sockets.Open(plan).ok());
  for (const int port : {first, first + 1}) {
    const Fd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_NE(bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const StatusOr<Fd> own = BindPort("127.0.0.1", port);
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(listen(own->get(), 1), 0);
  }
}

}  // namespace
}  // namespace tandem::deploy
