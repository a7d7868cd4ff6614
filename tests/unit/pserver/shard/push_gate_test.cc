// Tests the checks of a push before its values are copied, and the second check after the copy.
#include "pserver/shard/push_gate.h"

#include <cmath>

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;

class PushGateTest : public PartsTest {
 protected:
  void Make(UpdatePolicy mode) {
    Start(mode);
    replay_ = std::make_unique<PushReplay>(*state_);
    migrations_ = std::make_unique<BucketMigrations>(*state_, base_);
    hold_ = std::make_unique<GlobalSnapshotHold>(0, clock_, held_);
    gate_ = std::make_unique<PushGate>(*state_, *replay_, *migrations_, *hold_);
  }
  StatusCode CodeOf(const PushHead& head) const { return gate_->Check(head).status().code(); }

  Histogram& held_ = metrics_.GetHistogram("held", "for the test", {1});
  std::unique_ptr<PushReplay> replay_;
  std::unique_ptr<BucketMigrations> migrations_;
  std::unique_ptr<GlobalSnapshotHold> hold_;
  std::unique_ptr<PushGate> gate_;
};

TEST_F(PushGateTest, ASecondCheckSeesWhatCameMeanwhile) {
  Make(UpdatePolicy::kASync);
  PushTicket ticket = *gate_->Admit(Head(0, 1, 0), {});
  EXPECT_EQ(ticket.verdict, PushVerdict::kNew);
  ASSERT_EQ(gate_->Recheck(Head(0, 1, 0), ticket), OkStatus());
  EXPECT_EQ(ticket.verdict, PushVerdict::kNew);
  state_->trainers[0].taken.Take(1);  // another thread accepts the same push
  ASSERT_EQ(gate_->Recheck(Head(0, 1, 0), ticket), OkStatus());
  EXPECT_EQ(ticket.verdict, PushVerdict::kDuplicate);
  PushTicket next = *gate_->Admit(Head(0, 2, 0), {});
  state_->trainers[0].numbers.Raise({.sent = {1}, .ended = {}});
  ASSERT_TRUE(hold_->Hold(1, 0, seconds(1), state_->trainers).ok());
  EXPECT_EQ(gate_->Recheck(Head(0, 2, 0), next).code(), StatusCode::kOutOfRange);
}

TEST_F(PushGateTest, ADuplicateIsAcceptedAlsoWhereANewPushIsNot) {
  Make(UpdatePolicy::kASync);
  state_->trainers[0].taken.Take(1);
  PushHead head = Head(0, 1, 0);
  head.generation = 9;
  EXPECT_EQ(*gate_->Check(head), PushVerdict::kDuplicate);
  head.sequence = 2;
  EXPECT_EQ(CodeOf(head), StatusCode::kOutOfRange);
  head.generation = 0;
  state_->trainers[0].completed = true;
  EXPECT_EQ(CodeOf(head), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CodeOf(Head(1, 0, 0)), StatusCode::kFailedPrecondition) << "sequences count from 1";
}

TEST_F(PushGateTest, AReplayedPushPassesWithoutTheOtherChecks) {
  Make(UpdatePolicy::kASync);
  LogEntry entry{1, OrderRecord{Head(0, 1, 0)}};
  ASSERT_TRUE(replay_->Add(std::move(entry), /*lost=*/false).ok());
  PushHead head = Head(0, 1, 0);
  head.generation = 9;
  PushTicket ticket = *gate_->Admit(head, {});
  EXPECT_EQ(ticket.verdict, PushVerdict::kReplayed);
  ASSERT_EQ(gate_->Recheck(head, ticket), OkStatus());
  replay_->Lose(0, kIncarnation + 1);  // the server no longer needs the values of the push
  EXPECT_EQ(gate_->Recheck(head, ticket).code(), StatusCode::kOutOfRange);
}

TEST_F(PushGateTest, AnEventTimeInMicrosecondsIsRefused) {
  Make(UpdatePolicy::kASync);
  PushHead head = Head(0, 1, 0);
  head.event_time_ms = 1'700'000'000'000;
  EXPECT_EQ(CodeOf(head), StatusCode::kOk);
  for (const int64_t time : {int64_t{-1}, int64_t{1'700'000'000'000'000}}) {
    head.event_time_ms = time;
    const Status refused = gate_->Check(head).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find("is out of range, expected milliseconds of Unix time"),
              std::string::npos)
        << refused;
  }
}

TEST_F(PushGateTest, AllTrainersSendTheSameLearningRateOfAStep) {
  Make(UpdatePolicy::kSync);
  EXPECT_EQ(gate_->CheckStep(Head(0, 1, 0, NAN)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(gate_->CheckStep(Head(0, 1, 1)).code(), StatusCode::kFailedPrecondition);
  gate_->OnAccepted(Head(0, 1, 0, 0.5f));
  EXPECT_EQ(gate_->step_rate(), 0.5f);
  EXPECT_EQ(gate_->CheckStep(Head(1, 1, 0, 0.5f)), OkStatus());
  EXPECT_EQ(gate_->CheckStep(Head(1, 1, 0, 0.25f)).code(), StatusCode::kInvalidArgument);
  gate_->OnReplaced(1);  // no effect: trainer 1 did not set the rate
  EXPECT_EQ(gate_->CheckStep(Head(1, 1, 0, 0.25f)).code(), StatusCode::kInvalidArgument);
  gate_->OnReplaced(0);
  EXPECT_EQ(gate_->CheckStep(Head(1, 1, 0, 0.25f)), OkStatus());
}

TEST_F(PushGateTest, ValuesStayInTheMessageOnlyIfNothingNeedsThemLater) {
  const std::vector<float> values(4, 1.0f);
  const std::vector<const void*> in_place = {values.data()};
  Make(UpdatePolicy::kASync);
  PushTicket now = *gate_->Admit(Head(0, 1, 0), in_place);
  EXPECT_FALSE(now.buffers[0].owned());
  EXPECT_EQ(now.buffers[0].data(), reinterpret_cast<const std::byte*>(values.data()));
  Make(UpdatePolicy::kSync);
  PushTicket waits = *gate_->Admit(Head(0, 1, 0), in_place);
  EXPECT_TRUE(waits.buffers[0].owned()) << "the step waits for trainer 1";
  ASSERT_EQ(gate_->OwnValuesIfStepWaits(Head(0, 1, 0), now), OkStatus());
  EXPECT_TRUE(now.buffers[0].owned());
  EXPECT_EQ(Floats(now.buffers[0], 4)[3], 1.0f);
}

}  // namespace
}  // namespace tandem::pserver
