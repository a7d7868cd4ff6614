// Each waiting call gets exactly one reply: the value for which it waits, DEADLINE_EXCEEDED, or an
// error that names the lost trainer for which it waits.
#include "pserver/shard/waiting_calls.h"

#include "pserver/shard/trainer_timeouts.h"
#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WaitingCallsTest : public PartsTest {
 protected:
  void Make(UpdatePolicy mode) {
    Start(mode);
    migrations_ = std::make_unique<BucketMigrations>(*state_, base_);
    reader_ = std::make_unique<PullReader>(*state_, *migrations_, counters_);
    calls_ = std::make_unique<WaitingCalls>(*state_, *reader_, counters_);
    timeouts_ = std::make_unique<TrainerTimeouts>(*state_);
  }
  // Pulls as trainer 0. `result_` gets the reply.
  void Pull(uint64_t min_version, uint64_t min_step = 0, const void* tag = nullptr,
            bool observer = false) {
    PullQuery query{.caller = {"job", 0, kIncarnation}, .ranges = {}, .at_version = {}};
    query.min_version = min_version;
    query.min_step = min_step;
    query.observer = observer;
    calls_->AddPull({{.trainer = observer ? -1 : 0,
                      .since = clock_.Now(),
                      .deadline = clock_.Now() + seconds(10),
                      .incarnation = kIncarnation,
                      .tag = tag},
                     query,
                     [this](StatusOr<PullResult> result) {
                       ++replies_;
                       result_ = std::move(result);
                     }},
                    ready_);
  }
  void Send() {
    for (const auto& reply : std::exchange(ready_, {})) reply(OkStatus());
  }

  ShardCounters counters_{metrics_};
  std::unique_ptr<BucketMigrations> migrations_;
  std::unique_ptr<PullReader> reader_;
  std::unique_ptr<WaitingCalls> calls_;
  std::unique_ptr<TrainerTimeouts> timeouts_;
  ReadyAnswers ready_;
  int replies_ = 0;
  StatusOr<PullResult> result_ = Internal("no reply");
};

TEST_F(WaitingCallsTest, APullIsAnsweredAtItsVersion) {
  Make(UpdatePolicy::kASync);
  Pull(1);
  calls_->Wake(ready_);
  EXPECT_THAT(ready_, IsEmpty());
  ApplyOnes();
  calls_->Wake(ready_);
  Send();
  ASSERT_TRUE(result_.ok()) << result_.status();
  EXPECT_EQ(result_->version, 1u);
  EXPECT_EQ(state_->trainers[0].pulled, 1u);
  Pull(1);
  Send();
  EXPECT_EQ(replies_, 2) << "at once";
}

TEST_F(WaitingCallsTest, AReplyWaitsForTheLogAndAnErrorDoesNot) {
  Make(UpdatePolicy::kASync);
  Pull(0);
  ASSERT_EQ(ready_.size(), 1u);
  ready_[0](DataLoss("the log has ended"));
  EXPECT_EQ(result_.status().code(), StatusCode::kDataLoss);
  const auto error = Reply<uint64_t>(
      [](const StatusOr<uint64_t>& r) { EXPECT_EQ(r.status().code(), StatusCode::kAborted); },
      Aborted("x"));
  error(DataLoss("the log has ended"));
}

// A follower waits for the next change at all times. A trainer that pauses is not lost therefore.
TEST_F(WaitingCallsTest, AReaderAwaitsNoTrainer) {
  Make(UpdatePolicy::kSync);
  Pull(1, /*min_step=*/100, nullptr, /*observer=*/true);
  EXPECT_THAT(calls_->Awaited(), IsEmpty());
}

// Readers must not fill the list of waiting pulls, which trainers need.
TEST_F(WaitingCallsTest, ReadersLeaveRoomForTrainers) {
  Make(UpdatePolicy::kASync);
  const int tag = 0;
  for (int i = 0; i < 1024; ++i) Pull(1, 0, &tag, /*observer=*/true);
  EXPECT_THAT(ready_, IsEmpty());
  Pull(1, 0, nullptr, /*observer=*/true);
  Send();
  EXPECT_EQ(result_.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(result_.status().message()),
              HasSubstr("1024 pulls of readers already wait, which is the maximum [TD4042]"));
  Pull(1);
  EXPECT_THAT(ready_, IsEmpty()) << "the pull of a trainer waits";
  calls_->Leave(&tag, ready_);
  ready_.clear();
  Pull(1, 0, nullptr, /*observer=*/true);
  EXPECT_THAT(ready_, IsEmpty());
}

TEST_F(WaitingCallsTest, ADeadlineNamesWhoIsMissing) {
  Make(UpdatePolicy::kSync);
  Pull(1);
  EXPECT_EQ(calls_->NextDeadline(), clock_.Now() + seconds(10));
  EXPECT_THAT(calls_->Awaited(), ElementsAre(1)) << "trainer 0 waits itself";
  clock_.Advance(seconds(10));
  calls_->Expire(clock_.Now(), OkStatus(), ready_);
  Send();
  EXPECT_EQ(result_.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(result_.status().message()), HasSubstr("trainers 0, 1"));
  EXPECT_EQ(calls_->NextDeadline(), Time::max());
}

TEST_F(WaitingCallsTest, AWithdrawnCallAndACallOfAnOldIncarnationEnd) {
  Make(UpdatePolicy::kASync);
  const int tag = 0;
  Pull(1, 0, &tag);
  calls_->Leave(&tag, ready_);
  Send();
  EXPECT_EQ(result_.status().code(), StatusCode::kCancelled);
  Pull(1);
  EXPECT_FALSE(calls_->HasReplaced());
  state_->trainers[0].incarnation = kIncarnation + 1;
  EXPECT_TRUE(calls_->HasReplaced());
  calls_->FailReplaced(ready_);
  Send();
  EXPECT_EQ(result_.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(replies_, 2);
}

TEST_F(WaitingCallsTest, APullOfMovedSlicesFails) {
  Make(UpdatePolicy::kASync);
  for (int b = 0; b < kRowBuckets; ++b) ASSERT_TRUE(state_->params->Drop(b).ok());
  PullQuery rows{.caller = {"job", 0, kIncarnation}, .ranges = {}, .at_version = {}};
  rows.rows = {{"emb", {1}}};
  EXPECT_EQ(reader_->CheckHere(rows).code(), StatusCode::kOutOfRange);
  Pull(1);  // accepted, because this server still has the slice
  calls_->FailMovedPulls(ready_);
  EXPECT_THAT(ready_, IsEmpty());
  calls_->FailAll(Aborted("x"), ready_);
  Send();
  EXPECT_EQ(result_.status().code(), StatusCode::kAborted);
}

// In a_sync mode, waiting calls of other trainers no longer wait for a lost trainer. In sync mode,
// the step needs the push of the lost trainer, so the waiting calls get an error that names it.
TEST_F(WaitingCallsTest, AnUnresponsiveTrainerIsLostOrNamed) {
  Make(UpdatePolicy::kASync);
  state_->config.lost_after = seconds(100);
  state_->config.step_timeout = seconds(5);
  for (const int r : {0, 1}) state_->trainers.Hear(r);
  state_->trainers[0].pushes = 1;
  Pull(0, /*min_step=*/1);
  ASSERT_THAT(calls_->Awaited(), ElementsAre(1));
  EXPECT_EQ(timeouts_->NextDeadline(calls_->NextDeadline(), calls_->Awaited()),
            clock_.Now() + seconds(5));
  EXPECT_THAT(timeouts_->Unresponsive(clock_.Now(), calls_->Awaited()), IsEmpty());
  clock_.Advance(seconds(5));
  const std::vector<int> silent = timeouts_->Unresponsive(clock_.Now(), calls_->Awaited());
  EXPECT_THAT(silent, ElementsAre(1));
  EXPECT_THAT(std::string(timeouts_->CheckResponsive(clock_.Now(), silent).message()),
              HasSubstr("trainer 1 is lost"));
  EXPECT_THAT(timeouts_->LoseSilent(clock_.Now()), IsEmpty());
  clock_.Advance(seconds(95));
  EXPECT_THAT(timeouts_->LoseSilent(clock_.Now()), ElementsAre(1));
  calls_->Wake(ready_);
  Send();
  EXPECT_TRUE(result_.ok()) << result_.status();

  Make(UpdatePolicy::kSync);
  clock_.Advance(seconds(10000));
  EXPECT_THAT(timeouts_->LoseSilent(clock_.Now()), IsEmpty());
}

}  // namespace
}  // namespace tandem::pserver
