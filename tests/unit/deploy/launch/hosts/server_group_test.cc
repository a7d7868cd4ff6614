// Tests the choice of the primary of a server with standbys, without processes.
#include "deploy/launch/hosts/server_group.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::deploy {
namespace {

using Kind = MemberCommand::Kind;

// A group whose members answer each request with the state that the test gives them.
class Members {
 public:
  explicit Members(int count, bool quorum = true)
      : group(0, count, {.quorum = quorum}), states(static_cast<size_t>(count)) {
    for (int m = 0; m < count; ++m) Start(m);
  }
  void Start(int member) {
    group.OnStarted(member);
    Take(group.Next());
  }
  void End(int member) {
    group.OnEnded(member);
    Take(group.Next());
  }
  void Take(const std::vector<ServerGroup::Command>& commands) {
    for (const ServerGroup::Command& c : commands) {
      if (c.command.kind == Kind::kReport || c.command.kind == Kind::kHold) {
        asked[c.member] = c.command.number;
        holds[c.member] = c.command.kind == Kind::kHold;
        if (holds[c.member]) following[c.member] = 0;
      } else if (c.command.kind == Kind::kFollow) {
        follows.emplace_back(c.member, group.primary());
        following[c.member] = c.command.number;
      } else {
        orders.push_back(c);
      }
    }
  }
  // Answers the newest request to `member`.
  bool Answer(int member) {
    MemberReport report = states[static_cast<size_t>(member)];
    report.number = asked.at(member);
    report.following = following[member];
    const bool begins = group.OnReport(member, report);
    Take(group.Next());
    return begins;
  }
  // Makes `member` have a state of history 7.
  void Give(int member, uint64_t term, uint64_t last, uint64_t start = 0) {
    states[static_cast<size_t>(member)] = {.has_state = true,
                                           .complete = true,
                                           .history = 7,
                                           .term = term,
                                           .start = start,
                                           .last = last};
  }
  // Carries out the last order, which must be for `member`.
  void Obey(int member, Kind kind) {
    ASSERT_FALSE(orders.empty());
    EXPECT_EQ(orders.back().member, member);
    EXPECT_EQ(orders.back().command.kind, kind);
    MemberReport& state = states[static_cast<size_t>(member)];
    state.primary = true;
    if (kind == Kind::kPromote) state.term = orders.back().command.number;
    Take(group.Ping());
    EXPECT_TRUE(Answer(member));
  }

  ServerGroup group;
  std::vector<MemberReport> states;
  std::map<int, uint64_t> asked;
  std::map<int, uint64_t> following;         // numbers of the newest kFollow; 0: kHold came later
  std::map<int, bool> holds;                 // whether the newest request to a member was kHold
  std::vector<std::pair<int, int>> follows;  // members, and the primaries that they follow
  std::vector<ServerGroup::Command> orders;  // all other commands
};

TEST(ServerGroupTest, WithoutAnyStateTheFirstMemberBegins) {
  Members m(2);
  EXPECT_FALSE(m.Answer(1));
  EXPECT_TRUE(m.orders.empty());
  EXPECT_FALSE(m.Answer(0));
  m.Obey(0, Kind::kBegin);
  EXPECT_EQ(m.group.primary(), 0);
  EXPECT_EQ(m.orders.size(), 1u);
}

TEST(ServerGroupTest, TheLatestStateIsPromotedAtTheStart) {
  struct Case {
    uint64_t term, start, last;
    bool later;  // the state is later than {2, 1, 10}
  };
  const Case cases[] = {{2, 1, 11, true},  {2, 1, 9, false}, {2, 2, 1, true},
                        {2, 0, 99, false}, {3, 0, 1, true},  {1, 9, 99, false}};
  for (const Case& c : cases) {
    Members m(2);
    m.Give(0, 2, 10, 1);
    m.Give(1, c.term, c.last, c.start);
    m.Answer(0);
    EXPECT_TRUE(m.orders.empty()) << "member 1 may have a later state";
    m.Answer(1);
    m.Obey(c.later ? 1 : 0, Kind::kPromote);
    EXPECT_EQ(m.orders.back().command.number, 1000u);
  }
}

TEST(ServerGroupTest, ALostOrderToFollowIsRepeated) {
  Members m(2);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kBegin);
  ASSERT_EQ(m.follows.size(), 1u);
  const uint64_t before = std::exchange(m.following[1], 0);  // the order does not arrive
  m.Answer(1);  // this report was requested before the order
  EXPECT_EQ(m.follows.size(), 1u);
  m.Take(m.group.Ping());
  m.Answer(1);
  ASSERT_EQ(m.follows.size(), 2u);
  EXPECT_EQ(m.follows.back(), std::pair(1, 0));
  EXPECT_GT(m.following[1], before);
  m.Take(m.group.Ping());
  m.Answer(1);
  EXPECT_EQ(m.follows.size(), 2u);
}

TEST(ServerGroupTest, AStandbyReplacesALostPrimaryAtOnce) {
  Members m(2);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kBegin);
  m.Give(1, 1, 10);
  m.End(0);
  m.Answer(1);
  m.Obey(1, Kind::kPromote);
  EXPECT_EQ(m.group.term(), 1000u);
  m.Start(0);
  EXPECT_EQ(m.orders.size(), 2u);
  EXPECT_EQ(m.follows.back(), std::pair(0, 1));
  m.Give(0, 1000, 20);
  m.End(1);
  m.Answer(0);
  m.Obey(0, Kind::kPromote);
  EXPECT_EQ(m.group.term(), 2000u);
}

// A primary on a lost host may still run. Its standbys must not follow it any more when they vote.
TEST(ServerGroupTest, OnlyMembersThatFollowNobodyVote) {
  Members m(3);
  for (const int i : {0, 1, 2}) {
    EXPECT_TRUE(m.holds[i]) << "there is no primary";
    m.Answer(i);
  }
  EXPECT_TRUE(m.follows.empty()) << "member 0 does not serve yet";
  m.Obey(0, Kind::kBegin);
  EXPECT_FALSE(m.holds[1]) << "it follows member 0";
  EXPECT_EQ(m.follows, (std::vector<std::pair<int, int>>{{1, 0}, {2, 0}}));
  m.Give(1, 1, 10);
  m.Give(2, 1, 10);
  m.End(0);
  EXPECT_TRUE(m.holds[1]);
  m.Take(m.group.Ping());
  EXPECT_TRUE(m.holds[1]) << "a later report counts as a vote too";
  m.Answer(1);
  m.Answer(2);
  m.follows.clear();
  m.Obey(1, Kind::kPromote);
  EXPECT_EQ(m.follows, (std::vector<std::pair<int, int>>{{2, 1}}));
  m.Take(m.group.Next());
  EXPECT_EQ(m.follows.size(), 1u) << "each member is told once";
}

// Member 0 was the primary of term 1000. It restored two checkpoints, and each restoration
// increased its term by 1. The promotion must give the next multiple of ServerGroup::kTermStride.
TEST(ServerGroupTest, APromotionGivesATermThatNoPrimaryHad) {
  Members m(2);
  m.Give(0, 1002, 5);
  m.Give(1, 1000, 5);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kPromote);
  EXPECT_EQ(m.group.term(), 2000u);
}

// A report from before the end of the primary may lack entries that were acknowledged later.
TEST(ServerGroupTest, OnlyReportsAfterTheEndOfThePrimaryCount) {
  Members m(3);
  for (const int i : {0, 1, 2}) m.Answer(i);
  m.Obey(0, Kind::kBegin);
  m.Give(1, 1, 10);
  m.Give(2, 1, 10);
  m.Take(m.group.Ping());
  const uint64_t early = m.asked.at(1);
  m.End(0);
  MemberReport report = m.states[1];
  report.number = early;
  EXPECT_FALSE(m.group.OnReport(1, report));
  m.Take(m.group.Next());
  m.Give(2, 1, 12);
  m.Answer(2);
  EXPECT_EQ(m.orders.size(), 1u) << "one of three members may lack an acknowledged push";
  m.Answer(1);
  m.Obey(2, Kind::kPromote);
}

TEST(ServerGroupTest, TwoOfThreeMembersKnowAllPushes) {
  Members m(3);
  m.Give(0, 1, 3);
  m.Give(1, 1, 3);
  m.Give(2, 1, 3);
  for (const int i : {0, 1, 2}) m.Answer(i);
  m.Obey(0, Kind::kPromote);
  m.End(2);
  m.End(0);
  m.states[0] = m.states[2] = {};
  m.Answer(1);
  EXPECT_EQ(m.orders.size(), 1u);
  // The directories of two members are lost, so the third state may lack pushes.
  m.Start(0);
  m.Start(2);
  m.Answer(0);
  m.Answer(2);
  ASSERT_EQ(m.orders.size(), 4u);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(m.orders[i].command.kind, Kind::kRefuse);
    EXPECT_THAT(m.orders[i].command.text,
                testing::HasSubstr(
                    "1 of 3 members of pserver 0 have its complete state, but 2 are needed"));
  }
  EXPECT_EQ(m.group.primary(), -1);
  m.End(2);
  m.Start(2);  // is told too
  EXPECT_EQ(m.orders.size(), 5u);
  EXPECT_FALSE(m.group.IsWhole());
}

TEST(ServerGroupTest, WithoutAQuorumTheLatestOfAllMembersIsPromoted) {
  Members m(3, /*quorum=*/false);
  for (int i = 0; i < 3; ++i) m.Give(i, 1000, 5);
  for (int i = 0; i < 3; ++i) m.Answer(i);
  m.Obey(0, Kind::kPromote);
  m.orders.clear();
  m.End(0);
  m.Give(1, 2000, 6);
  m.Give(2, 2000, 7);
  m.Answer(1);
  m.Answer(2);
  EXPECT_TRUE(m.orders.empty()) << "member 0 may have entries that no standby has";
  m.states[0] = {};  // its directory is lost
  m.Start(0);
  m.Answer(0);
  m.Obey(2, Kind::kPromote);
}

TEST(ServerGroupTest, APrimaryThatHandsOverHasTimeForItsStandbys) {
  Members m(2, /*quorum=*/false);
  for (int i = 0; i < 2; ++i) m.Give(i, 1000, 5);
  for (int i = 0; i < 2; ++i) m.Answer(i);
  m.Obey(0, Kind::kPromote);
  EXPECT_FALSE(m.group.handing_over());
  const ServerGroup::Command command = m.group.HandOver();
  EXPECT_EQ(command.member, 0);
  EXPECT_EQ(command.command.kind, Kind::kHandOver);
  EXPECT_TRUE(m.group.handing_over());
  for (int i = 0; i < ServerGroup::kUnansweredMaxEnd; ++i) m.Take(m.group.Ping());
  EXPECT_FALSE(m.group.Hangs(0));
  m.Take(m.group.Ping());
  EXPECT_TRUE(m.group.Hangs(0));
  m.End(0);
  EXPECT_FALSE(m.group.handing_over());
  // Both members have the same state now.
  m.orders.clear();
  m.states[0].primary = false;
  m.states[1] = m.states[0];
  m.Start(0);
  m.Answer(0);
  m.Answer(1);
  m.Obey(1, Kind::kPromote);
}

TEST(ServerGroupTest, AMemberWhoseDiskLostEntriesWaitsForTheOthers) {
  Members m(2);
  m.Give(0, /*term=*/1000, /*last=*/5);
  m.Give(1, /*term=*/1000, /*last=*/5);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kPromote);
  m.states[0].last = m.states[1].last = 9;
  m.states[1].term = 2000;
  m.Take(m.group.Ping());
  m.Answer(0);
  m.Answer(1);
  // The host of both members loses its power, and member 0 had not synced its log.
  m.End(1);
  m.End(0);
  m.states[0].primary = false;
  m.states[0].last = 4;
  m.orders.clear();
  m.Start(0);
  m.Answer(0);
  EXPECT_TRUE(m.orders.empty()) << "member 1 has the acknowledged entries 5 to 9";
  m.Start(1);
  m.Answer(1);
  m.Obey(1, Kind::kPromote);
}

TEST(ServerGroupTest, LostStatesAreNotReplacedByNewOnes) {
  Members m(2);
  m.Give(0, 1, 3);
  m.Give(1, 1, 3);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kPromote);
  m.End(1);
  m.End(0);
  m.states = {{}, {}};
  m.Start(0);
  m.Start(1);
  m.Answer(0);
  m.Answer(1);
  EXPECT_EQ(m.orders.back().command.kind, Kind::kRefuse);
}

// A member has lost its directory and fetched an old checkpoint. It lacks pushes that it had
// acknowledged before, and the primary is killed at this moment.
TEST(ServerGroupTest, AMemberThatStillFetchesTheStateIsNotPromoted) {
  Members m(2);
  m.Give(0, 1, 10);
  m.Give(1, 1, 10);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kPromote);
  m.End(1);
  m.Start(1);
  m.Give(1, 1000, 4);
  m.states[1].complete = false;
  m.End(0);
  m.Answer(1);
  EXPECT_EQ(m.orders.size(), 1u);
  m.Start(0);
  m.Give(0, 1000, 12);
  m.Answer(0);
  m.Obey(0, Kind::kPromote);
}

TEST(ServerGroupTest, AnIncompleteStateIsNotReplacedByANewOne) {
  Members m(2);
  m.Give(1, 1000, 4);
  m.states[1].complete = false;
  m.Answer(0);
  m.Answer(1);
  EXPECT_EQ(m.orders.back().command.kind, Kind::kRefuse);
}

TEST(ServerGroupTest, StatesOfDifferentJobsAreRefused) {
  Members m(2);
  m.Give(0, 1, 3);
  m.Give(1, 1, 3);
  m.states[1].history = 8;
  m.Answer(0);
  m.Answer(1);
  ASSERT_EQ(m.orders.size(), 2u);
  EXPECT_EQ(m.orders[0].command.kind, Kind::kRefuse);
  EXPECT_THAT(m.orders[0].command.text, testing::HasSubstr("have states of different jobs"));
}

TEST(ServerGroupTest, AServerWithoutStandbysGetsSome) {
  Members m(3);
  m.states[0] = {.has_state = true, .complete = true, .last = 9};
  for (const int i : {2, 1, 0}) m.Answer(i);
  m.Obey(0, Kind::kPromote);
}

TEST(ServerGroupTest, AMemberThatStopsToReplyHangs) {
  Members m(2);
  m.Answer(0);
  m.Answer(1);
  m.Obey(0, Kind::kBegin);
  m.Take(m.group.Ping());
  m.Answer(0);
  m.Answer(1);
  for (int i = 0; i < ServerGroup::kUnansweredMax; ++i) {
    m.Take(m.group.Ping());
    m.Answer(0);
    EXPECT_FALSE(m.group.Hangs(1)) << i;
  }
  m.Take(m.group.Ping());
  EXPECT_TRUE(m.group.Hangs(1));
  EXPECT_FALSE(m.group.Hangs(0) && m.Answer(0));
  m.End(1);
  EXPECT_FALSE(m.group.Hangs(1));
  m.Start(1);  // a member that restores its state does not reply yet
  for (int i = 0; i < 100; ++i) m.Take(m.group.Ping());
  EXPECT_FALSE(m.group.Hangs(1));
}

}  // namespace
}  // namespace tandem::deploy
