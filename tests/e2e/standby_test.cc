// Tests tandemrun --standbys: pservers are killed, and their directories are deleted.
//   TANDEM_STANDBY_ROUNDS=N kills (20) TANDEM_STANDBY_SEED=N of their times (1)
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "proto/pserver.pb.h"
#include "pserver/client/carrier/blocking_call.h"
#include "pserver/client/client.h"
#include "pserver/client/follow/table_follower.h"
#include "tests/support/followed_rows.h"
#include "tests/support/process_test_util.h"
#include "tests/support/push_ledger.h"
#include "tests/support/push_ledger_check.h"

namespace tandem {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

constexpr char kFetched[] = "fetched the checkpoint of the primary";

int Count(const std::string& text, const std::string& word) {
  int count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Follows the table of the ledger on a thread. A follower that is started again continues at the
// token of the last one, as after a kill of a process that stores its rows and its token together.
class LedgerFollower {
 public:
  ~LedgerFollower() { Stop(); }
  void Start(const std::vector<std::string>& servers) {
    ps::ReaderOptions options;
    const ps::PsOptions of_trainer = LedgerOptions(0);
    options.job = of_trainer.job;
    options.security = of_trainer.security;
    options.timeout = std::chrono::minutes(2);
    auto follower =
        ps::TableFollower::Connect(servers, options, {.table = "rows", .token = token_});
    ASSERT_TRUE(follower.ok()) << follower.status();
    follower_ = *std::move(follower);
    stop_ = false;
    thread_ = std::thread([this] {
      while (!stop_ && !failed_) Step();
    });
  }
  // `keep`: keeps the follower.
  void Stop(bool keep = false) {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    if (!keep) follower_.reset();
  }
  // Continues until the follower has `rows`, for 60 s at most. REQUIRES: Stop was called.
  void Drain(const std::vector<std::string>& servers, const RowMap& rows) {
    Start(servers);
    Stop(/*keep=*/true);
    const Time until = SteadyNow() + std::chrono::seconds(60);
    while (followed_.rows != rows && !failed_ && SteadyNow() < until) Step();
    follower_.reset();
  }
  const FollowedRows& followed() const { return followed_; }
  const Status& status() const { return status_; }

 private:
  void Step() {
    auto change = follower_->Next(std::chrono::milliseconds(100));
    if (!change.ok()) {
      status_ = change.status();
      failed_ = true;
      return;
    }
    if (!*change) return;
    followed_.Apply(**change);
    token_ = follower_->token();
  }

  std::unique_ptr<ps::TableFollower> follower_;
  std::thread thread_;
  std::atomic<bool> stop_ = true, failed_ = false;
  FollowedRows followed_;
  std::string token_;
  Status status_;  // error of the last Next; the test reads it after Stop
};

class StandbyTest : public JobTest {
 protected:
  void TearDown() override {
    unsetenv("TANDEM_SECRET_FILE");
    job_process_.reset();
    JobTest::TearDown();
  }
  Args Launch(int servers, int standbys, int workers = 2) const {
    Args launch = {"--servers=" + std::to_string(servers), "--workers=" + std::to_string(workers),
                   "--pserver_data_dir=" + Path("state")};
    if (standbys > 0) {
      launch.push_back("--standbys=" + std::to_string(standbys));
      launch.push_back("--max_restarts=100000");
    }
    return launch;
  }
  // Starts a job whose trainers are ledger-trainers.
  void StartLedger(const Args& launch) {
    job_ = Write("ledger.pbtxt", LedgerJob());
    const std::string script =
        Write("trainer.sh", "#!/bin/sh\nexec " + Program("ledger-trainer") +
                                " $TANDEM_PSERVERS $PADDLE_TRAINER_ID grpc " + Path("pushes") +
                                "-$PADDLE_TRAINER_ID\n");
    ASSERT_EQ(chmod(script.c_str(), 0700), 0);
    Args all = launch;
    all.push_back("--trainer_bin=" + script);
    name_ = "ledger";
    std::filesystem::remove_all(Path(name_ + ".log"));
    job_process_ = StartJob(name_, all, {});
  }
  static std::string Program(const std::string& name) {
    return std::filesystem::absolute(std::getenv("TANDEM_BIN_DIR")).string() + "/" + name;
  }
  static std::string LedgerJob() {
    return "name: \"ledger\"\nmodel { zoo: \"lenet\" }\ndata { format: \"idx\" dir: \"" +
           std::string(kFashionMnist) + "\" }\n";
  }
  std::string LedgerOf(int trainer) const { return Path("pushes-" + std::to_string(trainer)); }
  std::string Log(const std::string& file) const {
    return ReadWholeFile(Path(name_ + ".log/" + file));
  }
  std::vector<std::string> Servers() const {
    const auto record = nlohmann::json::parse(Log("job.json"), nullptr, /*exceptions=*/false);
    if (!record.is_object()) return {};
    return absl::StrSplit(record.value("pservers", ""), ',');
  }
  // Returns the status of a server; nullopt: it does not reply.
  std::optional<StatusReply> StatusOf(int server) const;
  static std::string MemberName(int server, int member) {
    return member == 0 ? std::to_string(server)
                       : std::to_string(server) + ".member-" + std::to_string(member);
  }
  // Returns the process id of a member; 0: it has not been started.
  int64_t PidOf(int server, int member) const;
  // Waits until at least one standby of the server follows its primary, and the logs of the members
  // show at least `fetches` fetched checkpoints. Returns the member number of the primary; -1:
  // unknown.
  int AwaitWhole(int server, int fetches);
  int Fetches(int server, int members) const {
    int fetches = 0;
    for (int m = 0; m < members; ++m) {
      fetches += Count(Log("serverlog." + MemberName(server, m)), kFetched);
    }
    return fetches;
  }
  // Sends signal `number` to a member. `lose`: moves the member's directory away first.
  void Kill(int server, int member, bool lose, int number = SIGKILL) {
    const std::string dir = Path("state/pserver-" + MemberName(server, member));
    std::error_code error;
    if (lose) std::filesystem::rename(dir, Path("lost-" + std::to_string(lost_++)), error);
    EXPECT_FALSE(error) << error.message();
    const int64_t pid = PidOf(server, member);
    ASSERT_GT(pid, 0);
    // A member may end because of its lost directory before the signal.
    ASSERT_TRUE(kill(static_cast<pid_t>(pid), number) == 0 || (lose && errno == ESRCH));
  }
  int64_t Acknowledged(int trainer) const { return Count(ReadWholeFile(LedgerOf(trainer)), "a "); }
  // Waits until each trainer has two more acknowledged pushes, and returns the seconds of the wait.
  // A trainer makes one push at a time, so the second push began after the call.
  double SecondsToNextPushes() {
    const Time begin = SteadyNow();
    int64_t until[kLedgerTrainers];
    for (int t = 0; t < kLedgerTrainers; ++t) until[t] = Acknowledged(t) + 2;
    EXPECT_TRUE(WaitUntil([&] {
      for (int t = 0; t < kLedgerTrainers; ++t) {
        if (Acknowledged(t) < until[t]) return false;
      }
      return true;
    })) << "no push goes through\n"
        << job_process_->Output();
    return Seconds(SteadyNow() - begin);
  }
  // Makes the trainers pause. Then compares the pushes in their ledger files with the rows and the
  // slots on the servers. Returns the numbers of acknowledged, open (not acknowledged), lost and
  // doubled pushes.
  LedgerSum Compare();
  RowMap RowsOfServers() const;  // the test calls Compare before this function

  std::string name_;
  std::unique_ptr<ChildProcess> job_process_;
  int lost_ = 0, commands_ = 0;
};

std::optional<StatusReply> StandbyTest::StatusOf(int server) const {
  const std::vector<std::string> servers = Servers();
  if (static_cast<size_t>(server) >= servers.size()) return std::nullopt;
  const StatusOr<Endpoint> endpoint = ParseEndpoint(servers[static_cast<size_t>(server)]);
  if (!endpoint.ok()) return std::nullopt;
  const auto credentials = rpc::MakeCredentials({}, "");
  std::string secret;
  std::getline(std::ifstream(Path(name_ + ".log/job.secret")), secret);
  if (secret.empty()) return std::nullopt;  // tandemrun has not written it yet
  const auto record = nlohmann::json::parse(Log("job.json"), nullptr, /*exceptions=*/false);
  ps::BlockingCalls calls(
      ps::MakeRawServer(*endpoint, {}, *credentials, secret, record.value("job", "")));
  StatusReply reply;
  const Status status = calls.Call(rpc::PserverCall::kGetStatus, StatusRequest(), &reply,
                                   SteadyNow() + std::chrono::seconds(2));
  return status.ok() ? std::optional(reply) : std::nullopt;
}

int64_t StandbyTest::PidOf(int server, int member) const {
  const std::string name = absl::StrFormat("pserver %d (member %d)", server, member);
  int64_t pid = 0;
  for (const auto line : absl::StrSplit(Log("events.jsonl"), '\n')) {
    const auto event = nlohmann::json::parse(line, nullptr, /*exceptions=*/false);
    if (!event.is_object() || event.value("event", "") != "started") continue;
    if (event.value("process", "") == name) pid = event.value("pid", int64_t{0});
  }
  return pid;
}

int StandbyTest::AwaitWhole(int server, int fetches) {
  int primary = -1;
  EXPECT_TRUE(WaitUntil(
      [&] {
        const std::optional<StatusReply> status = StatusOf(server);
        if (!status || !status->initialised() || Fetches(server, 3) < fetches) return false;
        primary = static_cast<int>(status->member());
        return std::ranges::any_of(status->standby(), [](const StandbyStatus& s) {
          return s.current() && s.silent_seconds() < 2;
        });
      },
      120))
      << job_process_->Output() << Log("serverlog.0") << Log("serverlog.0.member-1");
  return primary;
}

LedgerSum StandbyTest::Compare() {
  for (int t = 0; t < kLedgerTrainers; ++t) std::ofstream(LedgerOf(t) + ".stop") << "\n";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  LedgerSum sum;
  setenv("TANDEM_SECRET_FILE", Path(name_ + ".log/job.secret").c_str(), 1);
  const auto client = ps::PsClient::Connect(Servers(), LedgerOptions(0));
  const Status configured = client.ok() ? ConfigureLedger(**client).status() : client.status();
  EXPECT_TRUE(configured.ok()) << configured;
  if (configured.ok())
    CompareLedgers(
        **client, [this](int t) { return LedgerOf(t); }, &sum);
  return sum;
}

RowMap StandbyTest::RowsOfServers() const {
  RowMap rows;
  const auto client = ps::PsClient::Connect(Servers(), LedgerOptions(0));
  const Status configured = client.ok() ? ConfigureLedger(**client).status() : client.status();
  EXPECT_TRUE(configured.ok()) << configured;
  if (!configured.ok()) return rows;
  const auto table = (*client)->PullTable("rows", /*slots=*/false);
  EXPECT_TRUE(table.ok()) << table.status();
  for (size_t i = 0; table.ok() && i < table->ids.size(); ++i) {
    rows[table->ids[i]] = {table->content[i]};
  }
  return rows;
}

double Percentile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// Kills members of a job of ledger-trainers, and compares the ledgers with the servers.
class StandbyLedgerTest : public StandbyTest {
 protected:
  StandbyLedgerTest() : random_(static_cast<uint32_t>(seed_)) {}
  // In each round, the primary or a standby of a server is killed at a random moment. It loses its
  // directory if another member has all of its state. `rounds`: number of rounds without
  // TANDEM_STANDBY_ROUNDS.
  void KillMembers(int rounds) {
    rounds = FromEnvironment("TANDEM_STANDBY_ROUNDS", rounds);
    int fetches[kServers] = {1, 1};
    for (; rounds_ < rounds && !HasFailure(); ++rounds_) {
      const int server = static_cast<int>(random_() % kServers);
      const bool lose = random_() % 4 != 0;
      const int primary = AwaitWhole(server, lose ? fetches[server] : 0);
      if (primary < 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 100));
      const bool of_primary = random_() % 10 < 7;
      Kill(server, of_primary ? primary : 1 - primary, lose);
      directories_ += lose;
      fetches[server] = Fetches(server, 2) + lose;
      const double pause = SecondsToNextPushes();
      if (of_primary) pauses_.push_back(pause);
      if (rounds_ % 3 == 0) {
        follower_.Stop();
        setenv("TANDEM_SECRET_FILE", Path(name_ + ".log/job.secret").c_str(), 1);
        follower_.Start(Servers());
      }
    }
  }
  void ExpectNothingIsLost() {
    const LedgerSum sum = Compare();
    follower_.Stop();
    const RowMap rows = RowsOfServers();
    follower_.Drain(Servers(), rows);
    EXPECT_TRUE(follower_.status().ok()) << follower_.status();
    EXPECT_EQ(follower_.followed().rows, rows) << "seed " << seed_;
    std::printf(
        "change stream: %zu rows of the follower are those of the servers, %zu row buckets were "
        "sent whole\n",
        rows.size(), follower_.followed().replaced);
    std::printf(
        "standby ledger: seed %d, %d kills, %d of them with the directory, %lld pushes "
        "acknowledged, %lld begun alone, lost %lld, doubled %lld\n",
        seed_, rounds_, directories_, static_cast<long long>(sum.acknowledged),
        static_cast<long long>(sum.open), static_cast<long long>(sum.lost),
        static_cast<long long>(sum.doubled));
    ASSERT_FALSE(pauses_.empty());
    std::printf(
        "pause of the pushes after the loss of one of %zu primaries: p50 %.3f s, p99 %.3f s, "
        "maximum %.3f s\n",
        pauses_.size(), Percentile(pauses_, 0.5), Percentile(pauses_, 0.99),
        *std::ranges::max_element(pauses_));
    EXPECT_GT(sum.acknowledged, 100);
    EXPECT_EQ(sum.lost, 0);
    EXPECT_EQ(sum.doubled, 0);
  }

  static constexpr int kServers = 2;
  const int seed_ = FromEnvironment("TANDEM_STANDBY_SEED", 1);
  std::mt19937 random_;
  LedgerFollower follower_;
  int rounds_ = 0, directories_ = 0;
  std::vector<double> pauses_;  // pauses of the trainers after the loss of a primary
};

TEST_F(StandbyLedgerTest, NothingIsLostWithServersAndTheirDirectories) {
  StartLedger(Launch(kServers, 1));
  KillMembers(20);
  ExpectNothingIsLost();
}

// Rows and slices move to pserver 2, which has no standby and does not die, and back again. Global
// snapshots are taken. Some of these commands are killed too.
TEST_F(StandbyLedgerTest, NothingIsLostWhileRowsMoveAndSnapshotsAreTaken) {
  StartLedger(Launch(kServers, 1));
  for (int server = 0; server < kServers; ++server) ASSERT_GE(AwaitWhole(server, 1), 0);
  const std::string log = Path(name_ + ".log"), address = "127.0.0.1:" + std::to_string(FreePort());
  ChildProcess added("tandem-pserver",
                     {"--listen=" + address, "--index=2", "--job=ledger",
                      "--data_dir=" + Path("state/pserver-2"), "--durability=logged"},
                     {{"TANDEM_SECRET_FILE", log + "/job.secret"}}, Path("pserver-2"));
  ASSERT_TRUE(added.WaitForText("listening on", 60)) << added.Output();
  const Args commands[] = {{"rebalance", log, "--add=" + address},
                           {"save", log, "--snapshot"},
                           {"drain", log, "--pserver=2"}};
  int done[std::size(commands)] = {}, killed = 0;
  std::atomic<bool> stop = false;
  std::thread operators([&] {
    std::mt19937 random(static_cast<uint32_t>(seed_));
    const auto each_done = [&] { return std::ranges::all_of(done, [](int n) { return n > 0; }); };
    for (size_t n = 0; n < 10'000 && (!stop || !each_done()); ++n) {
      const size_t kind = n % std::size(commands);
      ChildProcess command("tandem", commands[kind], {}, Path("command-" + std::to_string(n)));
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
      const bool kills = random() % 4 == 0;
      if (kills) command.Signal(SIGKILL);
      killed += kills;
      done[kind] += command.Wait(180) == 0;
    }
  });
  KillMembers(8);
  stop = true;
  operators.join();
  std::printf("%d moves to pserver 2, %d back, %d global snapshots, %d kills of commands\n",
              done[0], done[2], done[1], killed);
  for (const int count : done) EXPECT_GT(count, 0);
  ExpectNothingIsLost();
}

TEST_F(StandbyTest, LostServersChangeNoBitOfASyncJob) {
  const Args args = {"--steps_max=400", "--optimizer.type=adam", "--optimizer.learning_rate=0.001",
                     "--log_every_steps=1"};
  const JobRun quiet = RunJob("quiet", Launch(2, 0), args);
  std::filesystem::remove_all(Path("state"));
  name_ = "killed";
  job_process_ = StartJob(name_, Launch(2, 1), args);
  int fetches[2] = {1, 1};
  for (const int step : {20, 80, 140, 200}) {
    ASSERT_TRUE(WaitUntil([&] { return StepOf(*job_process_) >= step; })) << job_process_->Output();
    const int server = step % 40 == 0 ? 1 : 0;
    const int primary = AwaitWhole(server, fetches[server]);
    ASSERT_GE(primary, 0);
    Kill(server, primary, /*lose=*/true);
    fetches[server] = Fetches(server, 2) + 1;
  }
  EXPECT_EQ(job_process_->Wait(), 0) << job_process_->Output();
  const std::string output = job_process_->Output();
  EXPECT_THAT(output, HasSubstr("is the primary now (term 2000)"));
  EXPECT_EQ(ResultOf("killed").params_sha256, quiet.result.params_sha256) << output;
}

// A primary is lost with its directory while its standby is stopped. The pushes that only the
// primary had are lost, and the new primary counts each of them.
TEST_F(StandbyTest, AsyncReplicationCountsTheLostPushes) {
  Args launch = Launch(1, 1);
  launch.push_back("--replication=async");
  StartLedger(launch);
  int fetches = 1;
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    const int primary = AwaitWhole(0, fetches);
    ASSERT_GE(primary, 0);
    const auto standby = static_cast<pid_t>(PidOf(0, 1 - primary));
    ASSERT_EQ(kill(standby, SIGSTOP), 0);
    for (int i = 0; i < 10; ++i) SecondsToNextPushes();
    Kill(0, primary, /*lose=*/true);
    ASSERT_EQ(kill(standby, SIGCONT), 0);
    fetches = Fetches(0, 2) + 1;
    SecondsToNextPushes();
  }
  const LedgerSum sum = Compare();
  const std::optional<StatusReply> status = StatusOf(0);
  ASSERT_TRUE(status);
  int64_t counted = 0;
  for (const TrainerStatus& t : status->trainer()) {
    counted += static_cast<int64_t>(t.lost_pushes());
  }
  EXPECT_GE(counted, 20);
  EXPECT_EQ(counted, sum.lost_rows);
  EXPECT_EQ(sum.doubled, 0);
  std::printf("async replication: %lld pushes acknowledged, %lld lost, all counted\n",
              static_cast<long long>(sum.acknowledged), static_cast<long long>(sum.lost_rows));
}

// The trainers push all the time, so a killed primary would have the latest state, and be chosen.
TEST_F(StandbyTest, APlannedPromotionLosesNothingWithAsyncReplication) {
  Args launch = Launch(1, 1);
  launch.push_back("--replication=async");
  StartLedger(launch);
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    const int primary = AwaitWhole(0, 1);
    ASSERT_GE(primary, 0);
    SecondsToNextPushes();
    ChildProcess promote("tandem", {"promote", Path(name_ + ".log"), "0"},
                         std::map<std::string, std::string>{},
                         Path("promote-" + std::to_string(round)));
    EXPECT_EQ(promote.Wait(60), 0) << promote.Output();
    SecondsToNextPushes();
    EXPECT_EQ(AwaitWhole(0, 1), 1 - primary);
  }
  EXPECT_EQ(Count(job_process_->Output(), "hands over to a standby"), 4);
  const LedgerSum sum = Compare();
  const std::optional<StatusReply> status = StatusOf(0);
  ASSERT_TRUE(status);
  for (const TrainerStatus& t : status->trainer()) EXPECT_EQ(t.lost_pushes(), 0u);
  EXPECT_GT(sum.acknowledged, 20);
  EXPECT_EQ(sum.lost_rows, 0);
  EXPECT_EQ(sum.doubled, 0);
}

// The standby takes the snapshots of its primary, so they survive the primary and its disk.
TEST_F(StandbyTest, SnapshotsSurviveTheLossOfAServerAndItsDirectory) {
  StartLedger(Launch(2, 1));
  for (const int server : {0, 1}) ASSERT_GE(AwaitWhole(server, 1), 0);
  const auto tandem = [this](Args args) {
    args.push_back(Path(name_ + ".log"));
    return std::make_unique<ChildProcess>("tandem", args, std::map<std::string, std::string>{},
                                          Path("tandem-" + std::to_string(commands_++)));
  };
  const auto numbers = [&] {
    const auto list = tandem({"snapshots", "-o", "json"});
    EXPECT_EQ(list->Wait(60), 0) << list->Output();
    std::vector<uint64_t> found;
    for (const auto& s : nlohmann::json::parse(list->Output(), nullptr, false)) {
      if (s.value("whole", false)) found.push_back(s["snapshot"].get<uint64_t>());
    }
    return found;
  };
  for (int i = 0; i < 2; ++i) {
    SecondsToNextPushes();
    auto save = tandem({"save", "--snapshot"});
    for (int again = 0; save->Wait(60) != 0 && again < 20; ++again) {
      save = tandem({"save", "--snapshot"});
    }
    EXPECT_EQ(save->Wait(60), 0) << save->Output();
  }
  const std::vector<uint64_t> before = numbers();
  ASSERT_FALSE(before.empty());
  for (const int server : {0, 1}) {
    const int primary = AwaitWhole(server, 1);
    ASSERT_GE(primary, 0);
    const int fetches = Fetches(server, 2);
    Kill(server, primary, /*lose=*/true);
    SecondsToNextPushes();
    EXPECT_EQ(AwaitWhole(server, fetches + 1), 1 - primary);
  }
  EXPECT_EQ(numbers(), before);
  const auto back = tandem({"restore", "--snapshot=" + std::to_string(before.back())});
  EXPECT_EQ(back->Wait(60), 0) << back->Output();
}

// A stopped process is killed when it has not replied to tandemrun for some seconds.
TEST_F(StandbyTest, AStoppedMemberIsReplaced) {
  StartLedger(Launch(1, 1));
  const int primary = AwaitWhole(0, 1);
  ASSERT_GE(primary, 0);
  for (const int member : {primary, primary}) {  // the primary, then the same process as a standby
    Kill(0, member, /*lose=*/false, SIGSTOP);
    EXPECT_LT(SecondsToNextPushes(), 30);
    EXPECT_EQ(AwaitWhole(0, 1), 1 - primary);
  }
  EXPECT_THAT(job_process_->Output(),
              HasSubstr(absl::StrFormat("pserver 0 (member %d) does not reply", primary)));
  const LedgerSum sum = Compare();
  EXPECT_EQ(sum.lost, 0);
  EXPECT_EQ(sum.doubled, 0);
}

TEST_F(StandbyTest, ARestartedJobContinuesWithTheLastPrimary) {
  StartLedger(Launch(1, 2));
  const int first = AwaitWhole(0, 2);
  ASSERT_GE(first, 0);
  Kill(0, first, /*lose=*/true);
  SecondsToNextPushes();
  for (const int restart : {1, 2}) {
    job_process_->Signal(restart == 1 ? SIGKILL : SIGTERM);
    job_process_->Wait();
    StartLedger(Launch(1, 2));
    SecondsToNextPushes();
  }
  const LedgerSum sum = Compare();
  EXPECT_GT(sum.acknowledged, 0);
  EXPECT_EQ(sum.lost, 0);
  EXPECT_EQ(sum.doubled, 0);
  job_process_->Signal(SIGTERM);
  job_process_->Wait();
  StartLedger(Launch(1, 1));
  EXPECT_EQ(job_process_->Wait(), 78);
  EXPECT_THAT(job_process_->Output(), HasSubstr("is the state of a standby, and this job has 1"));
}

TEST_F(StandbyTest, TheLossOfAllStatesEndsTheJob) {
  StartLedger(Launch(1, 1));
  const int primary = AwaitWhole(0, 1);
  ASSERT_GE(primary, 0);
  // After more than a second, tandemrun knows that the members have a state. It is stopped, so that
  // it sees both losses at the same time.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  job_process_->Signal(SIGSTOP);
  Kill(0, 1 - primary, /*lose=*/true);
  Kill(0, primary, /*lose=*/true);
  job_process_->Signal(SIGCONT);
  EXPECT_NE(job_process_->Wait(), 0);
  EXPECT_THAT(job_process_->Output(),
              HasSubstr("0 of 2 members of pserver 0 have its complete state"));
}

}  // namespace
}  // namespace tandem
