// Tests the decisions about a job on several hosts: restarts, worlds, failures and lost hosts.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "deploy/launch/hosts/job_director.h"

namespace tandem::deploy {
namespace {

using std::chrono::seconds;
using Kind = JobOrder::Kind;
using Report = JobReport::Kind;

const Time kNow = Time() + seconds(1000);

// Two hosts with two trainers each.
JobDirector::Settings FourRanks() {
  JobDirector::Settings settings;
  settings.host_of = {0, 0, 1, 1};
  settings.patience = seconds(2);
  settings.ranks_return = true;
  return settings;
}

ProcessEnd Ended(int rank, int signal, int code = 0) {
  ProcessEnd end{.name = "trainer " + std::to_string(rank), .rank = rank};
  end.done = signal == 0 && code == 0;
  end.killed = end.lost = signal != 0;
  end.failed = !end.done;
  end.can_return = true;
  end.failure.role = "trainer";
  end.failure.rank = rank;
  end.failure.exit = {.code = code, .signal = signal};
  return end;
}

void Tell(JobDirector& director, int host, std::vector<ProcessEnd> ended, Time now = kNow) {
  director.Take(host, {.kind = Report::kEnded, .ended = std::move(ended)}, now);
}

// Returns the orders, without notes for the user and without the news that a rank is done.
std::vector<AddressedOrder> Take(JobDirector& director) {
  std::vector<AddressedOrder> orders = director.TakeOrders();
  std::erase_if(orders, [](const auto& order) {
    return order.order.kind == Kind::kNote || order.order.kind == Kind::kOver;
  });
  return orders;
}

TEST(JobDirectorTest, ARestartGoesToTheHostOfTheRankAndCountsForTheJob) {
  JobDirector::Settings settings = FourRanks();
  settings.max_restarts = 1;
  JobDirector director(settings);
  Tell(director, 1, {Ended(3, SIGKILL)});
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].to, 1);
  EXPECT_EQ(orders[0].order.kind, Kind::kRestart);
  EXPECT_EQ(orders[0].order.process, "trainer 3");
  EXPECT_EQ(orders[0].order.number, 1);

  Tell(director, 0, {Ended(0, SIGKILL)});
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "the budget is that of the job, not of a host";
  EXPECT_EQ(orders[0].to, AddressedOrder::kAll);
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
  EXPECT_EQ(orders[0].order.failure.rank, 0);
  Tell(director, 1, {Ended(2, SIGSEGV)});
  EXPECT_TRUE(Take(director).empty()) << "the first failure stays";
}

TEST(JobDirectorTest, AConsequenceWaitsForItsCauseOnAnotherHost) {
  JobDirector director(FourRanks());
  Tell(director, 1, {Ended(2, 0, kExitLostPeer)});
  EXPECT_TRUE(Take(director).empty());
  EXPECT_EQ(director.wakeup(), kNow + seconds(2));
  Tell(director, 0, {Ended(0, 0, 3)}, kNow + seconds(1));
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.failure.rank, 0);
  director.Step(kNow + seconds(3));
  EXPECT_TRUE(Take(director).empty());
}

TEST(JobDirectorTest, AConsequenceWithoutACauseEndsTheJob) {
  JobDirector director(FourRanks());
  Tell(director, 1, {Ended(2, 0, kExitLostPeer)});
  director.Step(kNow + seconds(1));
  EXPECT_TRUE(Take(director).empty());
  director.Step(kNow + seconds(2));
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.failure.rank, 2);
  EXPECT_EQ(director.wakeup(), Time::max());
}

TEST(JobDirectorTest, AnElasticJobContinuesWithoutALostHostAndTakesItBack) {
  JobDirector::Settings settings = FourRanks();
  settings.ranks_least = 2;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt", kNow);
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "one event for the host, not one for each rank";
  EXPECT_EQ(orders[0].order.kind, Kind::kWorld);
  EXPECT_EQ(orders[0].order.version, JobDirector::kFirstWorld + 1);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1}));

  EXPECT_FALSE(director.MayReplace(0));
  ASSERT_TRUE(director.MayReplace(1));
  director.AddHost(1, "host 1");
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "the new host learns the present world";
  EXPECT_EQ(orders[0].to, 1);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1}));
  EXPECT_FALSE(director.MayReplace(1));

  director.Take(1, {.kind = Report::kReady, .number = 3}, kNow);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1, 3}));
  director.Take(1, {.kind = Report::kReady, .number = 3}, kNow);
  director.Take(1, {.kind = Report::kReady, .number = 77}, kNow);
  EXPECT_TRUE(Take(director).empty()) << "it is a member; there is no rank 77";
}

TEST(JobDirectorTest, ARankThatTheUserStartsAgainJoins) {
  JobDirector::Settings settings = FourRanks();
  settings.ranks_least = 1;
  JobDirector director(settings);
  Tell(director, 1, {Ended(3, SIGKILL)});
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1, 2}));
  director.Take(0, {.kind = Report::kStartLost}, kNow);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kStartLost);
  EXPECT_EQ(orders[0].to, AddressedOrder::kAll);
  director.Take(1, {.kind = Report::kReady, .number = 3}, kNow);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1, 2, 3}));
}

TEST(JobDirectorTest, TooFewRanksEndTheJob) {
  JobDirector::Settings settings = FourRanks();
  settings.ranks_least = 3;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt", kNow);
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
  EXPECT_EQ(orders[0].order.failure.role, "host");
  EXPECT_NE(orders[0].order.failure.text.find("only 2 of 4 ranks are left"), std::string::npos);
}

TEST(JobDirectorTest, ALostHostOfAJobWithRestartsWaitsForAnother) {
  JobDirector::Settings settings = FourRanks();
  settings.max_restarts = 1;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt", kNow);
  EXPECT_TRUE(Take(director).empty());
  EXPECT_EQ(director.restarts(), 1);
  ASSERT_TRUE(director.MayReplace(1));
  director.AddHost(1, "host 1");
  EXPECT_TRUE(Take(director).empty());
  director.LoseHost(1, "host 1", "it burnt again", kNow);
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "no restart is left";
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
}

TEST(JobDirectorTest, TheWaitForAnotherHostEnds) {
  JobDirector::Settings settings = FourRanks();
  settings.max_restarts = 1;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt", kNow);
  EXPECT_LE(director.wakeup(), kNow) << "an order waits";
  EXPECT_TRUE(Take(director).empty());
  EXPECT_EQ(director.wakeup(), kNow + seconds(600));
  director.Step(kNow + seconds(599));
  EXPECT_TRUE(Take(director).empty());
  director.Step(kNow + seconds(600));
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_NE(orders[0].order.failure.text.find("no tandemrun has replaced it within 600 s"),
            std::string::npos);
  EXPECT_FALSE(director.MayReplace(1));
}

TEST(JobDirectorTest, TheLossOfAPserverHostEndsTheJob) {
  JobDirector::Settings settings = FourRanks();
  settings.pserver_hosts = {0, 1};
  settings.max_restarts = 5;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt", kNow);
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
}

TEST(JobDirectorTest, AJobWhoseLastTrainersLostAPeerFails) {
  JobDirector director(FourRanks());
  Tell(director, 0, {Ended(0, 0), Ended(1, 0)});
  Tell(director, 1, {Ended(2, 0, kExitLostPeer), Ended(3, 0, kExitLostPeer)});
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 2u) << "no process is left that could name another cause";
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
  EXPECT_EQ(orders[1].order.kind, Kind::kFinish);
}

TEST(JobDirectorTest, AJobWaitsForTheTrainersOfALostHost) {
  JobDirector::Settings settings = FourRanks();
  settings.ranks_return = false;
  settings.pserver_hosts = {0};
  settings.max_restarts = 1;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt", kNow);
  Tell(director, 0, {Ended(0, 0), Ended(1, 0)});
  EXPECT_TRUE(Take(director).empty()) << "the samples of host 1 are not trained yet";
  director.AddHost(1, "host 1");
  Tell(director, 1, {Ended(2, 0), Ended(3, 0)});
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kFinish);
}

TEST(JobDirectorTest, ASignalToEachHostIsOneSignal) {
  JobDirector director(FourRanks());
  for (const int host : {0, 1}) {
    director.Take(host, {.kind = Report::kSignal, .number = SIGTERM}, kNow);
  }
  EXPECT_EQ(Take(director).size(), 1u);
  director.Take(1, {.kind = Report::kSignal, .number = SIGTERM}, kNow);
  EXPECT_EQ(Take(director).size(), 1u) << "the second signal to a host kills the job";
}

TEST(JobDirectorTest, AHostLeavesAnElasticJobThatCanContinue) {
  JobDirector::Settings settings = FourRanks();
  settings.ranks_least = 2;
  settings.max_restarts = 5;
  JobDirector director(settings);
  director.Take(1, {.kind = Report::kLeave, .number = SIGTERM}, kNow);
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0].order.kind, Kind::kWorld);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1}));
  EXPECT_EQ(orders[1].order.kind, Kind::kRelease);
  EXPECT_EQ(orders[1].to, 1);
  Tell(director, 1, {Ended(2, SIGKILL), Ended(3, SIGKILL)});
  EXPECT_TRUE(Take(director).empty()) << "the ranks of a host that leaves are not restarted";
  director.HostLeft(1);
  EXPECT_TRUE(director.MayReplace(1));

  director.Take(0, {.kind = Report::kLeave, .number = SIGTERM}, kNow);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "too few ranks would be left, so the job stops";
  EXPECT_EQ(orders[0].order.kind, Kind::kSignal);
  EXPECT_EQ(orders[0].except, AddressedOrder::kAll);
}

TEST(JobDirectorTest, ReportsAboutProcessesOfOtherHostsAreIgnored) {
  JobDirector director(FourRanks());
  Tell(director, 0, {Ended(3, SIGKILL), Ended(77, SIGKILL)});
  director.Take(0, {.kind = Report::kSignal, .number = -1}, kNow);
  EXPECT_TRUE(Take(director).empty());
}

TEST(JobDirectorTest, TheJobFinishesWhenAllTrainersHaveEnded) {
  JobDirector director(FourRanks());
  Tell(director, 0, {Ended(0, 0), Ended(1, 0)});
  Tell(director, 1, {Ended(3, 0)});
  EXPECT_TRUE(Take(director).empty());
  Tell(director, 1, {Ended(2, 0)});
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kFinish);
}

TEST(JobDirectorTest, ASignalGoesToTheOtherHosts) {
  JobDirector::Settings settings = FourRanks();
  settings.max_restarts = 9;
  JobDirector director(settings);
  director.Take(1, {.kind = Report::kSignal, .number = SIGTERM}, kNow);
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kSignal);
  EXPECT_EQ(orders[0].except, 1);
  Tell(director, 0, {Ended(0, SIGTERM)});
  EXPECT_TRUE(Take(director).empty()) << "a job that stops restarts nothing";
}

TEST(JobDirectorTest, AWaitGoesToTheHostOfTheAwaitedProcess) {
  JobDirector::Settings settings = FourRanks();
  settings.pserver_hosts = {0, 1};
  JobDirector director(settings);
  JobReport report{.kind = Report::kWait};
  report.wait.who = {"trainer", 0};
  report.wait.whom = {"trainer", 3};
  director.Take(0, report, kNow);
  report.wait.whom = {"pserver", 0};
  director.Take(1, report, kNow);
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0].to, 1);
  EXPECT_EQ(orders[1].to, 0);
  director.Take(0, report, kNow);
  report.wait.whom = {"pserver", 9};
  director.Take(1, report, kNow);
  EXPECT_TRUE(Take(director).empty()) << "its own process, and a process that does not exist";
}

TEST(JobDirectorTest, AProcessThatHangsWithoutARestartIsTheFirstFailure) {
  JobDirector::Settings settings = FourRanks();
  settings.max_restarts = 1;
  JobDirector director(settings);
  const JobReport hangs{.kind = Report::kUnresponsive, .ended = {Ended(2, SIGKILL)}};
  director.Take(1, hangs, kNow);
  EXPECT_TRUE(Take(director).empty()) << "it will be restarted";
  Tell(director, 1, {Ended(2, SIGKILL)});
  EXPECT_EQ(Take(director).size(), 1u);
  director.Take(1, hangs, kNow);
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
}

// A job whose hosts obey the director with random delays, while random processes and hosts fail.
// Checks after each event what must hold at any time.
class RandomJob {
 public:
  explicit RandomJob(uint32_t seed) : random_(seed) {
    const int hosts = Draw(1, 4), each = Draw(1, 3);
    for (int rank = 0; rank < hosts * each; ++rank) settings_.host_of.push_back(rank / each);
    const bool elastic = Draw(0, 1) == 1;
    if (elastic) settings_.ranks_least = Draw(1, hosts * each);
    if (!elastic && Draw(0, 2) == 0) settings_.pserver_hosts = {Draw(0, hosts - 1)};
    settings_.max_restarts = Draw(0, 4);
    settings_.ranks_return =
        elastic || (settings_.pserver_hosts.empty() && settings_.max_restarts > 0);
    settings_.patience = seconds(hosts > 1 ? 2 : 0);
    director_.emplace(settings_);
    for (size_t rank = 0; rank < settings_.host_of.size(); ++rank) {
      runs_.insert(static_cast<int>(rank));
      members_.insert(static_cast<int>(rank));
    }
  }

  const std::string& log() const { return log_; }
  // Returns whether the job ended, as it must.
  bool Run() {
    for (int event = 0; event < 400 && !::testing::Test::HasFailure(); ++event) {
      now_ += std::chrono::milliseconds(Draw(0, 900));
      Happen();
      director_->Step(now_);
      Obey();
    }
    for (const int rank : std::set<int>(runs_)) End(rank, 0, 0);  // the rest completes the job
    Obey();
    director_->Step(now_ + seconds(1000));  // no host replaces a lost one
    Obey();
    return finished_;
  }

 private:
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  int HostOf(int rank) const { return settings_.host_of[static_cast<size_t>(rank)]; }
  int AnyRank() { return Draw(0, static_cast<int>(settings_.host_of.size()) - 1); }

  void Happen() {
    const int rank = AnyRank(), host = HostOf(rank);
    switch (Draw(0, 11)) {
      case 0:
      case 1:
        return End(rank, SIGKILL, 0);
      case 2:
        if (Draw(0, 5) == 0) End(rank, 0, Draw(0, 1) == 0 ? 3 : static_cast<int>(kExitLostPeer));
        return;
      case 3:
        if (Draw(0, 9) == 0) End(rank, 0, 0);
        return;
      case 4:
        if (host != 0 && Draw(0, 3) == 0 && !lost_.contains(host)) LoseHost(host);
        return;
      case 5:
        for (const int lost : std::set<int>(lost_)) {
          if (!director_->MayReplace(lost)) continue;
          lost_.erase(lost);
          for (size_t r = 0; r < settings_.host_of.size(); ++r) {
            if (settings_.host_of[r] == lost) runs_.insert(static_cast<int>(r));
          }
          absl::StrAppend(&log_, "add host ", lost, "\n");
          return director_->AddHost(lost, "host " + std::to_string(lost));
        }
        return;
      case 6:
        if (runs_.contains(rank))
          director_->Take(host, {.kind = Report::kReady, .number = rank}, now_);
        return;
      case 8:
        if (host != 0 && Draw(0, 9) == 0 && !lost_.contains(host) && !ending_) {
          director_->Take(host, {.kind = Report::kLeave, .number = SIGTERM}, now_);
        }
        return;
      case 7:
        if (Draw(0, 40) == 0) {
          ending_ = true;
          director_->Take(host, {.kind = Report::kSignal, .number = SIGTERM}, now_);
        }
        return;
      default:
        return;
    }
  }

  void End(int rank, int signal, int code) {
    if (!runs_.contains(rank) || lost_.contains(HostOf(rank))) return;
    runs_.erase(rank);
    absl::StrAppend(&log_, "end ", rank, " by ", signal, " code ", code, "\n");
    Tell(*director_, HostOf(rank), {Ended(rank, signal, code)}, now_);
  }

  void LoseHost(int host) {
    lost_.insert(host);
    absl::StrAppend(&log_, "lose host ", host, "\n");
    std::erase_if(runs_, [&](int rank) { return HostOf(rank) == host; });
    director_->LoseHost(host, "host", "it burnt", now_);
  }

  void Obey() {
    for (const AddressedOrder& order : Take(*director_)) {
      const JobOrder& o = order.order;
      absl::StrAppend(&log_, "order ", static_cast<int>(o.kind), " ", o.process, " to ", order.to,
                      "\n");
      switch (o.kind) {
        case Kind::kRestart: {
          EXPECT_FALSE(ending_) << "a job that ends restarts nothing";
          EXPECT_LE(o.number, settings_.max_restarts);
          const int rank = std::stoi(o.process.substr(o.process.find(' ') + 1));
          EXPECT_EQ(order.to, HostOf(rank));
          EXPECT_FALSE(runs_.contains(rank));
          EXPECT_FALSE(lost_.contains(HostOf(rank)));
          runs_.insert(rank);
          break;
        }
        case Kind::kWorld:
          EXPECT_FALSE(ending_);
          EXPECT_GE(o.version, version_);
          EXPECT_TRUE(o.version > version_ || order.to != AddressedOrder::kAll);
          if (o.version > version_) members_ = {o.members.begin(), o.members.end()};
          version_ = o.version;
          EXPECT_FALSE(o.members.empty() && !o.over);
          EXPECT_TRUE(o.over || static_cast<int>(o.members.size()) >= settings_.ranks_least);
          for (const int rank : o.members) EXPECT_FALSE(lost_.contains(HostOf(rank)));
          break;
        case Kind::kRelease:
          lost_.insert(order.to);
          std::erase_if(runs_, [&](int rank) { return HostOf(rank) == order.to; });
          director_->HostLeft(order.to);
          break;
        case Kind::kSignal:
          ending_ = true;
          break;
        case Kind::kFailed:
          EXPECT_FALSE(ending_) << "a job fails once, and not after a signal";
          ending_ = true;
          break;
        case Kind::kFinish:
          EXPECT_FALSE(finished_);
          EXPECT_TRUE(runs_.empty());
          finished_ = true;
          break;
        default:
          break;
      }
    }
    EXPECT_LE(director_->restarts(), settings_.max_restarts);
  }

  std::mt19937 random_;
  JobDirector::Settings settings_;
  std::optional<JobDirector> director_;
  Time now_ = kNow;
  std::set<int> runs_, members_, lost_;
  int64_t version_ = JobDirector::kFirstWorld;
  bool ending_ = false, finished_ = false;
  std::string log_;  // events and orders
};

TEST(JobDirectorTest, RandomJobsKeepTheRules) {
  const char* const text = std::getenv("TANDEM_DIRECTOR_SEEDS");
  const uint32_t seeds = text != nullptr ? static_cast<uint32_t>(std::atol(text)) : 3000;
  const char* const first = std::getenv("TANDEM_DIRECTOR_FIRST");
  const uint32_t begin = first != nullptr ? static_cast<uint32_t>(std::atol(first)) : 0;
  for (uint32_t seed = begin; seed < begin + seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomJob job(seed);
    EXPECT_TRUE(job.Run()) << "the job does not end:\n" << job.log();
  }
}

// An elastic job with `ranks` ranks on one host, of which one is enough.
JobDirector::Settings ElasticRanks(int ranks) {
  JobDirector::Settings settings;
  settings.host_of.assign(static_cast<size_t>(ranks), 0);
  settings.ranks_return = true;
  settings.ranks_least = 1;
  return settings;
}

void Scale(JobDirector& director, int ranks) {
  director.Take(0, {.kind = Report::kScale, .number = ranks}, kNow);
}

TEST(JobDirectorTest, AScaledRankLeavesTheWorldBeforeItGetsASignal) {
  JobDirector director(ElasticRanks(3));
  Scale(director, 2);
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "no signal, because the rank is in a step with the others";
  EXPECT_EQ(orders[0].order.kind, Kind::kWorld);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1}));
  // The rank reports that it is ready when it has left the world.
  for (int report = 0; report < 2; ++report) {
    director.Take(0, {.kind = Report::kReady, .number = 2}, kNow);
    orders = Take(director);
    ASSERT_EQ(orders.size(), report == 0 ? 1u : 0u) << "one signal, and it does not join again";
    if (report > 0) break;
    EXPECT_EQ(orders[0].order.kind, Kind::kEnd);
    EXPECT_EQ(orders[0].order.process, "trainer 2");
    EXPECT_EQ(orders[0].order.number, SIGTERM);
  }
  Tell(director, 0, {Ended(2, 0, kExitLostPeer)});
  EXPECT_TRUE(Take(director).empty()) << "the end is no failure";
  Scale(director, 3);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kStartLost);
  EXPECT_EQ(orders[0].order.members, std::vector<int>{2});
  director.Take(0, {.kind = Report::kReady, .number = 2}, kNow);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{0, 1, 2}));
}

TEST(JobDirectorTest, TheNewestRankEndsFirstAndIsNotRestarted) {
  JobDirector::Settings settings = ElasticRanks(3);
  settings.max_restarts = 5;
  JobDirector director(settings);
  Tell(director, 0, {Ended(0, SIGKILL)});
  director.Take(0, {.kind = Report::kReady, .number = 0}, kNow);
  Take(director);
  Scale(director, 2);
  auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.members, (std::vector<int>{1, 2})) << "rank 0 joined last";
  // A rank that does not leave its step is killed.
  EXPECT_EQ(director.wakeup(), kNow + settings.retire_max);
  director.Step(kNow + settings.retire_max);
  orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.process, "trainer 0");
  EXPECT_EQ(orders[0].order.number, SIGKILL);
  Tell(director, 0, {Ended(0, SIGKILL)});
  EXPECT_TRUE(Take(director).empty());
  EXPECT_EQ(director.restarts(), 1) << "only the one before";
}

TEST(JobDirectorTest, ARankThatStillEndsStartsAgainIfTheUserWantsIt) {
  JobDirector director(ElasticRanks(2));
  Scale(director, 1);
  Take(director);
  Scale(director, 2);
  EXPECT_TRUE(Take(director).empty()) << "the process of the rank still runs";
  Tell(director, 0, {Ended(1, 0, kExitLostPeer)});
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kStartLost);
  EXPECT_EQ(orders[0].order.members, std::vector<int>{1});
}

TEST(JobDirectorTest, AScaleOutsideTheLimitsChangesNothing) {
  JobDirector::Settings settings = ElasticRanks(3);
  settings.ranks_least = 2;
  JobDirector director(settings);
  Scale(director, 1);
  Scale(director, 4);
  Scale(director, 3);
  EXPECT_TRUE(Take(director).empty());
}

}  // namespace
}  // namespace tandem::deploy
