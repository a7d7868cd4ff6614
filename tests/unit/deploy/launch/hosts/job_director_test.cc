// Tests the decisions about a job on several hosts: restarts, worlds, failures and lost hosts.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>

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

// Returns the orders of one kind, without notes for the user.
std::vector<AddressedOrder> Take(JobDirector& director) {
  std::vector<AddressedOrder> orders = director.TakeOrders();
  std::erase_if(orders, [](const auto& order) { return order.order.kind == Kind::kNote; });
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
  director.LoseHost(1, "host 1", "it burnt");
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
  director.LoseHost(1, "host 1", "it burnt");
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
  director.LoseHost(1, "host 1", "it burnt");
  EXPECT_TRUE(Take(director).empty());
  EXPECT_EQ(director.restarts(), 1);
  ASSERT_TRUE(director.MayReplace(1));
  director.AddHost(1, "host 1");
  EXPECT_TRUE(Take(director).empty());
  director.LoseHost(1, "host 1", "it burnt again");
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u) << "no restart is left";
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
}

TEST(JobDirectorTest, TheLossOfAPserverHostEndsTheJob) {
  JobDirector::Settings settings = FourRanks();
  settings.pserver_hosts = {0, 1};
  settings.max_restarts = 5;
  JobDirector director(settings);
  director.LoseHost(1, "host 1", "it burnt");
  const auto orders = Take(director);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].order.kind, Kind::kFailed);
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

}  // namespace
}  // namespace tandem::deploy
