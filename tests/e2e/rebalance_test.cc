// Rows of a growing table move between the pservers of a running job. A server joins, another
// server is drained and stopped, and the tests kill servers with SIGKILL during the moves. Trainers
// push all the time. With SGD at learning rate 1, the value of a row is the number of pushes
// applied to it. At the end, this value must equal the number of acknowledged pushes. In sync mode,
// values and optimizer slots must have the bits of a job without moves.
#include <nlohmann/json.hpp>

#include "tests/e2e/rebalance_fixture.h"

namespace tandem {
namespace {

using testing::Not;

TEST_F(RebalanceTest, AServerComesAndAnotherGoesWhileTrainersPush) {
  Begin();
  StartServer(2);
  const auto asked = Tandem({"rebalance", "--add=" + endpoints_[2], "--dry_run", "-o", "json"});
  EXPECT_EQ(asked->Wait(120), 0) << asked->Output();
  const auto plan = nlohmann::json::parse(asked->Output(), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(plan.is_object()) << asked->Output();
  EXPECT_EQ(plan["moved_buckets"], 0);
  EXPECT_EQ(plan["pservers"][2]["buckets"], 0);
  int coming = 0;
  for (const auto& t : plan["transfers"]) coming += t["target"] == 2 ? t["buckets"].get<int>() : 0;
  EXPECT_EQ(coming, 341);
  Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}),
         "pserver 2 (" + endpoints_[2] + "): 341");
  // The other servers know the address of the new server by now, so pserver 1 can be drained.
  DrainAndStop();
  ExpectLedger();
}

TEST_F(RebalanceTest, ServersAndCommandMayBeKilledMeanwhile) {
  MoveAndKill(std::chrono::milliseconds(40));
  ExpectLedger();
}

TEST_F(RebalanceTest, TrainersThatWaitForOneAnotherGoOnWhateverMoves) {
  staleness_ = 1;
  Begin();
  StartServer(2);
  Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}), "pserver 2 (");
  DrainAndStop();
  ExpectLedger();
}

TEST_F(RebalanceTest, ServersThatAreKilledLearnAgainHowFarTrainersAre) {
  staleness_ = 0;
  MoveAndKill(std::chrono::milliseconds(40));
  ExpectLedger();
}

TEST_F(StepRebalanceTest, AServerComesAndAnotherGoesBetweenSteps) {
  Begin();
  StartServer(2);
  Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}),
         "pserver 2 (" + endpoints_[2] + "): 341");
  DrainAndStop();
  ExpectSameBits();
}

TEST_F(StepRebalanceTest, ServersAndCommandMayBeKilledMeanwhile) {
  MoveAndKill(std::chrono::milliseconds(60));
  ExpectSameBits();
}

TEST_F(RebalanceTest, WhatCannotMoveIsSaid) {
  StartServer(0);
  StartServer(1);
  const auto first = Client(0);
  const auto none = Tandem({"drain", "--pserver=7"});
  EXPECT_NE(none->Wait(60), 0);
  EXPECT_THAT(none->Output(), HasSubstr("there is no pserver 7: the job has"));
  const auto zero = Tandem({"drain", "--pserver=0"});
  EXPECT_NE(zero->Wait(60), 0);
  EXPECT_THAT(zero->Output(), HasSubstr("pserver 0 cannot be drained"));
}

TEST_F(RebalanceTest, ServersThatKeepCheckpointsAloneRefuse) {
  durability_ = "none";
  StartServer(0);
  StartServer(1);
  const auto first = Client(0);
  const auto drain = Tandem({"drain", "--pserver=1"});
  EXPECT_NE(drain->Wait(60), 0);
  EXPECT_THAT(drain->Output(), HasSubstr("rows cannot move to a server without durability"));
}

// The user may stop a server that was added but serves no rows. No process may wait for this
// server.
TEST_F(RebalanceTest, AServerThatIsGoneAgainStandsInNobodysWay) {
  Begin();
  StartServer(2);
  Finish(*Tandem({"rebalance", "--add=" + endpoints_[2]}), "pserver 2 (");
  Finish(*Tandem({"drain", "--pserver=2"}), "pserver 2 is empty and receives no more rows");
  servers_[2]->Signal(SIGTERM);
  EXPECT_EQ(servers_[2]->Wait(20), 0);
  const auto again = Tandem({"rebalance"});
  EXPECT_EQ(again->Wait(30), 0) << again->Output();
  EXPECT_THAT(again->Output(), Not(HasSubstr("pserver 2")));
  GoOn();
  End();
  ExpectLedger();
}

}  // namespace
}  // namespace tandem
