// worker_update_interval_secs: a server treats a trainer that sends no message for this time as
// lost. Asynchronous trainers continue without it, synchronous trainers get an error.
#include <future>

#include "tests/knobs/knob_programs.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

// kShort is longer than any delay of a call on a busy machine.
constexpr Duration kShort = seconds(2), kLong = seconds(60);

// Two trainers share a parameter with one element.
class SilentTrainerTest : public pserver::PserverTest {
 protected:
  void Connect(ps::PsMode mode, Duration lost_after) {
    StartServers(1);
    for (int t : {0, 1}) {
      clients_[t] =
          *Client(t, 2, {.patience = {.step_timeout = kLong}, .rules = {.lost_after = lost_after}});
      ASSERT_TRUE(clients_[t]->Configure({{"w", Shape{1}}}, mode, {}).ok());
    }
    for (int t : {0, 1}) {
      float first = 10;
      const ps::PsTensor w = {"w", &first, 1};
      ASSERT_TRUE(clients_[t]->InitOrFetch({&w, 1}).ok());
    }
  }
  Status Push(int trainer, uint64_t step) {
    const float gradient = 1;
    return pserver::PushAndWait(*clients_[trainer], step, 1.0f, {{"w", &gradient, 1}});
  }
  // Pulls the parameters when every trainer has pushed `steps` steps. A lost trainer does not
  // count.
  void PullBehind(uint64_t steps, pserver::Answer<StatusOr<uint64_t>>& answer) {
    clients_[0]->Pull(ps::PullCondition{.step = steps}, {{"w", &pulled_, 1}}, answer.Callback());
  }
  double Lost() { return metrics_.GetGauge("tandem_pserver_lost_trainers", "").Value(); }

  float pulled_ = 0;
  std::unique_ptr<ps::PsClient> clients_[2];
};

TEST_F(SilentTrainerTest, OthersGoOnWithoutItUntilItCallsAgain) {
  Connect(ps::PsMode::kASync, kShort);
  const Time begin = SteadyNow();
  ASSERT_TRUE(Push(0, 0).ok());
  pserver::Answer<StatusOr<uint64_t>> without;
  PullBehind(1, without);
  ASSERT_TRUE(without.Get().ok());
  EXPECT_GT(SteadyNow() - begin, kShort / 2);
  EXPECT_LT(SteadyNow() - begin, kLong);
  EXPECT_EQ(Lost(), 1);
  EXPECT_TRUE(servers_[0]->Info().trainers[1].lost);
  EXPECT_TRUE(clients_[0]->Barrier("all").ok());
  // After a call of the lost trainer, the server waits for this trainer again.
  ASSERT_TRUE(Push(1, 0).ok());
  EXPECT_EQ(Lost(), 0);
  ASSERT_TRUE(Push(0, 1).ok());
  pserver::Answer<StatusOr<uint64_t>> with;
  PullBehind(2, with);
  ASSERT_TRUE(Push(1, 1).ok());
  ASSERT_TRUE(with.Get().ok());
  EXPECT_EQ(pulled_, 6) << "two pushes of each";
  EXPECT_EQ(Lost(), 0);
}

// No trainer waits for another trainer. The server detects the loss nevertheless.
TEST_F(SilentTrainerTest, IsNoticedWhenNobodyWaits) {
  Connect(ps::PsMode::kASync, kShort);
  const Time deadline = SteadyNow() + kLong;
  uint64_t step = 0;
  while (Lost() == 0 && SteadyNow() < deadline) ASSERT_TRUE(Push(0, step++).ok());
  EXPECT_TRUE(servers_[0]->Info().trainers[1].lost);
  EXPECT_FALSE(servers_[0]->Info().trainers[0].lost);
}

TEST_F(SilentTrainerTest, LongerThanThisNobodyIsLost) {
  Connect(ps::PsMode::kASync, kLong);
  ASSERT_TRUE(Push(0, 0).ok());
  std::promise<Status> answered;
  clients_[0]->Pull(
      ps::PullCondition{.step = 1}, {{"w", &pulled_, 1}},
      [&](const StatusOr<uint64_t>& version) { answered.set_value(version.status()); });
  auto waiting = answered.get_future();
  EXPECT_EQ(waiting.wait_for(kShort), std::future_status::timeout);
  EXPECT_EQ(Lost(), 0);
  ASSERT_TRUE(Push(1, 0).ok());
  EXPECT_TRUE(waiting.get().ok());
}

// A step is complete only with the gradients of all trainers, so a waiting synchronous trainer gets
// an error.
TEST_F(SilentTrainerTest, InSyncModeThoseWhoWaitAreTold) {
  Connect(ps::PsMode::kSync, kShort);
  ASSERT_TRUE(Push(0, 0).ok());
  const Time begin = SteadyNow();
  const Status status = pserver::PullAndWait(*clients_[0], 1, {{"w", &pulled_, 1}}).status();
  EXPECT_LT(SteadyNow() - begin, kLong) << "the step's timeout";
  EXPECT_EQ(status.code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("trainer 1 is lost"), HasSubstr("step 1")));
  EXPECT_EQ(Lost(), 0);
  EXPECT_EQ(servers_[0]->Info().version, 0u);
}

TEST(SilentTrainerJob, TheJobSaysHowLong) {
  EXPECT_EQ(PserverModeOptions({}).lost_after, seconds(900));
  EXPECT_EQ(PserverModeOptions({{"worker_update_interval_secs", "7"}}).lost_after, seconds(7));
}

}  // namespace
}  // namespace tandem::trainer
