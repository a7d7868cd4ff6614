// Tests the choice of primaries of pservers whose standbys are on other hosts, without processes.
//   TANDEM_GROUPS_SEEDS=N random jobs (2000) TANDEM_GROUPS_FIRST=SEED of the first one (0)
#include "deploy/launch/hosts/server_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <optional>
#include <random>

#include "absl/strings/str_cat.h"
#include "deploy/launch/hosts/job_director.h"

namespace tandem::deploy {
namespace {

using std::chrono::seconds;
using Command = MemberCommand::Kind;
using Kind = JobOrder::Kind;
using News = MemberNews::Kind;

const Time kNow = Time() + seconds(1000);

// One pserver with a member on each host, and one trainer on each host.
JobDirector::Settings OneServer(int members) {
  JobDirector::Settings settings;
  ServerPlace place;
  for (int m = 0; m < members; ++m) {
    place.hosts.push_back(m);
    place.addresses.push_back(absl::StrCat("10.0.0.", m, ":7000"));
    settings.host_of.push_back(m);
  }
  settings.pserver_hosts = {0};
  settings.members = {place};
  settings.max_restarts = 1000000;
  settings.patience = seconds(2);
  return settings;
}

// The processes of one pserver, and the director of their job. Each member has a log of numbered
// entries. A primary has acknowledged an entry if a majority of the members has stored it, of which
// all but the primary follow it.
class Members {
 public:
  Members(int count, uint32_t seed)
      : random_(seed), director_(OneServer(count)), members_(static_cast<size_t>(count)) {
    for (int m = 0; m < count; ++m) StartProcess(m);
  }

  void Run(int events) {
    for (int i = 0; i < events && wrong_.empty(); ++i) {
      now_ += std::chrono::milliseconds(Draw(0, 300));
      Happen();
      director_.Step(now_);
      TakeOrders();
    }
  }
  // Ends all faults, and returns whether one member serves and all others follow it.
  bool Settle() {
    for (int i = 0; i < 400 && wrong_.empty(); ++i) {
      for (int m = 0; m < size(); ++m) {
        Replace(m);
        Deliver(m);
        Copy(m);
      }
      now_ += std::chrono::milliseconds(500);
      director_.Step(now_);
      TakeOrders();
    }
    const auto serves = [](const Member& m) { return m.primary && m.process != 0; };
    const auto primary = std::ranges::find_if(members_, serves);
    return primary != members_.end() && std::ranges::count_if(members_, serves) == 1 &&
           std::ranges::all_of(members_, [&](const Member& m) {
             return &m == &*primary || (m.follows == primary->process && m.last == primary->last);
           });
  }
  const std::string& wrong() const { return wrong_; }
  int promotions() const { return promotions_; }
  int stale() const { return stale_; }

 private:
  struct Member {
    int process = 0;       // number of the running process; 0: none runs
    bool primary = false;  // true: the process serves
    int follows = 0;       // number of the followed process; 0: none
    bool has_state = false, complete = false;
    uint64_t term = 0, start = 0, last = 0;  // the state on the disk
    uint64_t follow_number = 0;              // number of the newest kFollow
    std::deque<MemberCommand> commands;
    bool lost = false;  // true: the director has lost the host
  };
  struct Term {
    uint64_t number, start;
  };

  int size() const { return static_cast<int>(members_.size()); }
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  Member& Of(int member) { return members_[static_cast<size_t>(member)]; }

  // Before the standbys have the first state, the loss of its only copy ends the job (TD4030).
  bool begun() const {
    return std::ranges::all_of(members_, [](const Member& m) { return m.has_state; });
  }
  void Happen() {
    const int m = Draw(0, size() - 1);
    switch (Draw(begun() ? 0 : 3, 19)) {
      case 0:
        return KillProcess(m);
      case 1:  // a lost host, whose processes continue
        if (m == 0 || Of(m).lost || Draw(0, 1) == 0) return;
        Of(m).lost = true;
        stale_ += Of(m).primary;
        return director_.LoseHost(m, "host", "it is silent", now_);
      case 2:
        return Replace(m);
      case 3:
      case 4:
      case 5:  // a push
        if (Of(m).process != 0 && Of(m).primary) ++Of(m).last;
        return;
      case 6:
      case 7:
      case 8:
      case 9:
        return Copy(m);
      default:
        return Deliver(m);
    }
  }

  void StartProcess(int m) {
    Of(m).process = ++processes_;
    Of(m).primary = false;
    Of(m).follows = 0;
    Of(m).commands.clear();
    director_.Take(m, {.kind = JobReport::Kind::kMember, .member = {News::kStarted, 0, m, {}}},
                   now_);
  }
  void KillProcess(int m) {
    if (Of(m).process == 0) return;
    Of(m).process = 0;
    Of(m).primary = false;
    if (Of(m).lost) return;
    ProcessEnd end{.name = absl::StrCat("pserver 0 (member ", m, ")"), .server = 0};
    end.killed = end.lost = end.failed = end.can_return = true;
    end.server_member = m;
    director_.Take(m, {.kind = JobReport::Kind::kEnded, .ended = {end}}, now_);
  }
  // A new tandemrun on the same host. It finds no process of the previous one.
  void Replace(int m) {
    if (!Of(m).lost || !director_.MayReplace(m)) return;
    Of(m).process = 0;
    Of(m).primary = false;
    director_.AddHost(m, "host");
    Of(m).lost = false;
    StartProcess(m);
  }

  // A standby copies the log of the process that it follows.
  void Copy(int m) {
    Member& to = Of(m);
    if (to.process == 0 || to.follows == 0) return;
    const auto from = std::ranges::find_if(
        members_, [&](const Member& p) { return p.process == to.follows && p.primary; });
    if (from == members_.end() || from->term < to.term) return;
    to.has_state = to.complete = true;
    to.term = from->term;
    to.start = from->start;
    to.last = from->last;
    Acknowledge(*from);
  }
  void Acknowledge(const Member& primary) {
    std::vector<uint64_t> stored = {primary.last};
    for (const Member& m : members_) {
      // A follower with the state of another term has none of the primary's entries yet.
      const bool counts = m.process != 0 && m.follows == primary.process && m.term == primary.term;
      if (counts) stored.push_back(m.last);
    }
    const size_t majority = 1 + members_.size() / 2;
    if (stored.size() < majority) return;
    std::ranges::sort(stored, std::greater<>());
    const uint64_t last = stored[majority - 1];
    for (const Term& t : terms_) {
      if (t.number > primary.term && last > t.start) {
        wrong_ = absl::StrCat("a primary of term ", primary.term, " acknowledges entry ", last,
                              ", but term ", t.number, " began after entry ", t.start);
      }
    }
    acknowledged_ = std::max(acknowledged_, last);
  }

  // The process of a member handles its oldest command.
  void Deliver(int m) {
    Member& member = Of(m);
    if (member.lost || member.process == 0 || member.commands.empty()) return;
    const MemberCommand command = member.commands.front();
    member.commands.pop_front();
    const bool may_be_lost = command.kind == Command::kFollow || command.kind == Command::kBegin ||
                             command.kind == Command::kPromote;
    if (may_be_lost && Draw(0, 9) == 0) return;
    switch (command.kind) {
      case Command::kHold:
        member.follows = 0;
        [[fallthrough]];
      case Command::kReport:
        return Report(m, command.number);
      case Command::kFollow:
        member.follows = Of(std::stoi(command.text.substr(sizeof("10.0.0.") - 1))).process;
        EXPECT_GT(command.number, member.follow_number) << "it identifies the standby";
        member.follow_number = command.number;
        return;
      case Command::kBegin:
        member.has_state = member.complete = true;
        return Serve(m, 1);
      case Command::kPromote:
        return Serve(m, command.number);
      case Command::kHandOver:  // only with asynchronous replication, which this test lacks
        wrong_ = "a primary hands over";
        return;
      case Command::kRefuse:
        wrong_ = command.text;
    }
  }
  void Serve(int m, uint64_t term) {
    Member& member = Of(m);
    if (member.last < acknowledged_) {
      wrong_ = absl::StrCat("member ", m, " begins term ", term, " with entry ", member.last,
                            ", but entry ", acknowledged_, " is acknowledged");
    }
    for (const Term& t : terms_) {
      if (t.number >= term) wrong_ = absl::StrCat("term ", term, " follows term ", t.number);
    }
    terms_.push_back({term, member.last});
    member.follows = 0;
    member.primary = true;
    member.term = term;
    member.start = member.last;
    ++promotions_;
    Report(m, 0);
  }
  void Report(int m, uint64_t number) {
    const Member& member = Of(m);
    MemberReport report{number, member.primary, member.has_state, member.complete};
    report.history = member.has_state ? 7 : 0;
    report.term = member.term;
    report.start = member.start;
    report.last = member.last;
    report.following = member.follows == 0 ? 0 : member.follow_number;
    director_.Take(m, {.kind = JobReport::Kind::kMember, .member = {News::kState, 0, m, report}},
                   now_);
  }

  void TakeOrders() {
    for (bool more = true; more;) {
      const std::vector<AddressedOrder> orders = director_.TakeOrders();
      more = !orders.empty();
      for (const AddressedOrder& order : orders) Obey(order);
    }
  }
  void Obey(const AddressedOrder& order) {
    const JobOrder& o = order.order;
    if (o.kind == Kind::kFailed) wrong_ = o.failure.text;
    if (order.to == AddressedOrder::kAll) return;
    Member& member = Of(order.to);
    if (o.kind == Kind::kMember) {
      EXPECT_EQ(o.server_member, order.to) << "each host has one member";
      member.commands.push_back(o.command);
    }
    if (o.kind == Kind::kRestart && !member.lost) StartProcess(order.to);
    if (o.kind == Kind::kKill && !member.lost && begun()) KillProcess(order.to);
  }

  std::mt19937 random_;
  JobDirector director_;
  std::vector<Member> members_;
  Time now_ = kNow;
  int processes_ = 0, promotions_ = 0, stale_ = 0;
  uint64_t acknowledged_ = 0;
  std::vector<Term> terms_;
  std::string wrong_;
};

uint32_t FromEnvironment(const char* name, uint32_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? static_cast<uint32_t>(std::atol(text)) : otherwise;
}

// Hosts are lost while their processes continue, also primaries. No acknowledged push is lost.
TEST(ServerGroupsTest, RandomJobsLoseNoAcknowledgedPush) {
  const uint32_t seeds = FromEnvironment("TANDEM_GROUPS_SEEDS", 2000);
  const uint32_t first = FromEnvironment("TANDEM_GROUPS_FIRST", 0);
  int promotions = 0, stale = 0;
  for (uint32_t seed = first; seed < first + seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Members members(2 + static_cast<int>(seed % 3), seed);
    members.Run(600);
    EXPECT_EQ(members.wrong(), "");
    EXPECT_TRUE(members.Settle()) << members.wrong();
    promotions += members.promotions();
    stale += members.stale();
  }
  std::printf("%d promotions, %d primaries on lost hosts\n", promotions, stale);
  EXPECT_GT(stale, 0);
}

// The steps of the director until member 0 of 2 serves.
class TwoMembers : public ::testing::Test {
 protected:
  TwoMembers() {
    for (const int m : {0, 1}) Tell(m, {News::kStarted, 0, m, {}});
    for (const AddressedOrder& o : director.TakeOrders()) {
      if (o.order.kind == Kind::kMember) Answer(o);
    }
    Tell(0, {News::kState, 0, 0, {.primary = true, .has_state = true, .complete = true}});
    orders = director.TakeOrders();
  }
  void Tell(int host, const MemberNews& news) {
    director.Take(host, {.kind = JobReport::Kind::kMember, .member = news}, kNow);
  }
  void Answer(const AddressedOrder& to) {
    Tell(to.to, {News::kState, 0, to.order.server_member, {.number = to.order.command.number}});
  }
  std::vector<JobOrder> Of(int host, Kind kind) const {
    std::vector<JobOrder> found;
    for (const AddressedOrder& o : orders) {
      if ((o.to == host || o.to == AddressedOrder::kAll) && o.order.kind == kind) {
        found.push_back(o.order);
      }
    }
    return found;
  }

  JobDirector director = JobDirector(OneServer(2));
  std::vector<AddressedOrder> orders;
};

TEST_F(TwoMembers, TheHostsLearnWhoServesAndWhomToFollow) {
  ASSERT_EQ(Of(0, Kind::kPrimary).size(), 1u);
  EXPECT_EQ(Of(0, Kind::kPrimary)[0].process, "pserver 0 (member 0)");
  const std::vector<JobOrder> to_standby = Of(1, Kind::kMember);
  ASSERT_FALSE(to_standby.empty());
  EXPECT_EQ(to_standby.back().command.kind, Command::kFollow);
  EXPECT_EQ(to_standby.back().command.text, "10.0.0.0:7000");
}

TEST_F(TwoMembers, AUserMayMoveTheRole) {
  director.Take(1, {.kind = JobReport::Kind::kPromote, .number = 0}, kNow);
  orders = director.TakeOrders();
  ASSERT_EQ(Of(0, Kind::kKill).size(), 1u);
  EXPECT_EQ(Of(0, Kind::kKill)[0].event, "replaced");
  director.Take(1, {.kind = JobReport::Kind::kPromote, .number = 0}, kNow);
  orders = director.TakeOrders();
  ASSERT_EQ(Of(0, Kind::kNote).size(), 1u);
  EXPECT_EQ(Of(0, Kind::kNote)[0].text, "its primary was killed a moment ago");
  director.Take(1, {.kind = JobReport::Kind::kPromote, .number = 5}, kNow);
  orders = director.TakeOrders();
  EXPECT_EQ(Of(0, Kind::kNote).at(0).text, "it has no primary with standbys now");
}

TEST_F(TwoMembers, AMemberThatHangsIsKilledByItsHost) {
  int second = 0;
  while (Of(0, Kind::kKill).empty() && second < 60) {
    director.Step(kNow + seconds(++second));
    orders = director.TakeOrders();
    for (const AddressedOrder& o : std::vector<AddressedOrder>(orders)) {
      if (o.to == 1 && o.order.kind == Kind::kMember) Answer(o);
    }
  }
  EXPECT_EQ(second, ServerGroup::kUnansweredMax + 1);
  ASSERT_EQ(Of(0, Kind::kKill).size(), 1u);
  EXPECT_EQ(Of(0, Kind::kKill)[0].event, "silent");
  EXPECT_EQ(Of(0, Kind::kKill)[0].number, ServerGroup::kUnansweredMax);
  EXPECT_TRUE(Of(1, Kind::kKill).empty());
}

TEST_F(TwoMembers, AWaitForAPserverWithoutAllItsMembersKillsNothing) {
  JobReport wait{.kind = JobReport::Kind::kWait};
  wait.wait.whom = {"pserver", 0};
  director.Take(1, wait, kNow);
  EXPECT_TRUE(director.TakeOrders().empty()) << "member 1 has not reported its state yet";
  director.Step(kNow + seconds(1));
  for (const AddressedOrder& o : director.TakeOrders()) {
    if (o.order.kind != Kind::kMember) continue;
    const bool primary = o.to == 0;
    Tell(o.to, {News::kState,
                0,
                o.to,
                {o.order.command.number, primary, /*has_state=*/true, /*complete=*/true}});
  }
  (void)director.TakeOrders();
  director.Take(0, wait, kNow);
  orders = director.TakeOrders();
  EXPECT_EQ(Of(0, Kind::kWait).size(), 1u) << "also if the report is of the host of the primary";
}

// A member that was stopped before its first report is not killed, because it may still read its
// log. The user learns for what the pushes wait.
TEST_F(TwoMembers, TheUserIsWarnedWhilePushesWaitForAMember) {
  std::string shown;
  for (int second = 1; second <= 25; ++second) {
    director.Step(kNow + seconds(second));
    orders = director.TakeOrders();
    for (const AddressedOrder& o : std::vector<AddressedOrder>(orders)) {
      if (o.order.kind == Kind::kNote) shown += o.order.shown + "\n";
      if (o.order.kind != Kind::kMember || o.to != 0) continue;
      const uint64_t number = o.order.command.number;
      Tell(0, {News::kState, 0, 0, {number, /*primary=*/true, /*has_state=*/true, true}});
    }
    if (second == 1) {
      const ProcessEnd end{.name = "pserver 0 (member 1)",
                           .killed = true,
                           .lost = true,
                           .can_return = true,
                           .failed = true,
                           .server = 0,
                           .server_member = 1};
      director.Take(1, {.kind = JobReport::Kind::kEnded, .ended = {end}}, kNow + seconds(1));
      Tell(1, {News::kStarted, 0, 1, {}});
    }
  }
  EXPECT_EQ(shown,
            "warning: pushes to pserver 0 have waited for 10 s: member 1 has not replied\n"
            "warning: pushes to pserver 0 have waited for 20 s: member 1 has not replied\n");
}

TEST_F(TwoMembers, NewsFromTheWrongHostAndAboutUnknownMembersAreIgnored) {
  Tell(1, {News::kStarted, 0, 0, {}});
  Tell(0, {News::kStarted, 7, 0, {}});
  Tell(0, {News::kClosed, -1, 0, {}});
  Tell(0, {News::kState, 0, 9, {}});
  EXPECT_TRUE(director.TakeOrders().empty());
}

TEST_F(TwoMembers, TheLossOfAHostWithAStandbyWaitsForItsReplacement) {
  director.LoseHost(1, "host 1", "it burnt", kNow);
  orders = director.TakeOrders();
  EXPECT_TRUE(Of(0, Kind::kFailed).empty());
  EXPECT_TRUE(director.MayReplace(1));
  EXPECT_TRUE(director.NeedsAddress(1));
}

}  // namespace
}  // namespace tandem::deploy
