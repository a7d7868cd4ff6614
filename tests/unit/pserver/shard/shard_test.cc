#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "gmock/gmock.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/read_calls.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::HasSubstr;

class ShardTest : public ShardFixture {};

TEST_F(ShardTest, SyncAppliesOncePerStepWhenAllArrived) {
  Start(Config(2, UpdatePolicy::kSync));
  auto pulled = Pending();
  PullLater(0, 1, seconds(10), pulled);
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  // The pull still waits for the push of trainer 1, so `pulled` still has its first status.
  EXPECT_EQ(pulled->status().code(), StatusCode::kUnimplemented);
  const StatusOr<PushOutcome> second = Push(Head(Rank(1), 1, 0), 3.0f);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->version, 1u);
  ASSERT_TRUE(pulled->ok()) << pulled->status();
  EXPECT_EQ((*pulled)->version, 1u);
  EXPECT_THAT(Values(**pulled), Each(1.0f - 0.5f * 4.0f));
  EXPECT_EQ(Values(**pulled).size(), 12u);
}

TEST_F(ShardTest, GradientsMayComeInSeveralMessagesAndAnyOrder) {
  // The bits of the sum of these values depend on the order of addition, but must not depend on the
  // order of arrival.
  const std::vector<float> g = {1e8f, 1.0f, -1e8f};
  std::vector<float> first_bits;
  const std::vector<std::vector<int>> orders = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
  for (const std::vector<int>& order : orders) {
    Make();
    Start(Config(3, UpdatePolicy::kSync), 0.0f);
    for (int r : order) {
      PushHead one = Head(Rank(r), 1, 0), rest = Head(Rank(r), 2, 0);
      one.slices.resize(1);
      rest.slices.erase(rest.slices.begin());
      ASSERT_TRUE(Push(rest, g[r]).ok());
      ASSERT_TRUE(Push(one, g[r]).ok());
    }
    const StatusOr<PullResult> pulled = PullNow(1);
    ASSERT_TRUE(pulled.ok()) << pulled.status();
    if (first_bits.empty()) first_bits = Values(*pulled);
    EXPECT_EQ(Values(*pulled), first_bits);
    EXPECT_THAT(Values(*pulled), Each(-0.5f * ((g[0] + g[1]) + g[2])));
  }
}

TEST_F(ShardTest, MomentumKeepsItsSlotsBetweenSteps) {
  Start(Config(1, UpdatePolicy::kSync, "momentum"), 0.0f);
  float value = 0, velocity = 0;
  for (uint64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(Push(Head(Rank(0), step + 1, step, 0.1f), 1.0f).ok());
    velocity = 0.9f * velocity + 1.0f;
    value = value - 0.1f * velocity;
  }
  EXPECT_THAT(Values(*PullNow(3)), Each(testing::FloatNear(value, 1e-6f)));
  const auto state = shard_->reads().PullState("job", {"fc_0.b"});
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->version, 3u);
  ASSERT_EQ(state->slots.size(), 1u);
  EXPECT_THAT(state->slots[0].slot, HasSubstr("fc_0.b"));
  EXPECT_FLOAT_EQ(reinterpret_cast<float*>(state->slots[0].values.get())[3], velocity);
}

TEST_F(ShardTest, DuplicateIsAcknowledgedAndNotAppliedTwice) {
  Start(Config(1, UpdatePolicy::kASync));
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  const StatusOr<PushOutcome> again = Push(Head(Rank(0), 1, 0), 1.0f);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate);
  EXPECT_EQ(again->version, 1u);
  EXPECT_THAT(Values(*PullNow(0)), Each(0.5f));
  // In sync mode, the shard also recognises a repeated push after its step has ended.
  Make();
  Start(Config(1, UpdatePolicy::kSync));
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  EXPECT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f)->duplicate);
  EXPECT_THAT(Values(*PullNow(0)), Each(0.5f));
}

TEST_F(ShardTest, TheSamePushOnTwoThreadsCountsOnce) {
  Start(Config(1, UpdatePolicy::kASync));
  const PushHead head = Head(Rank(0), 1, 0);
  StatusOr<PushTicket> a = shard_->AdmitPush(head), b = shard_->AdmitPush(head);
  ASSERT_TRUE(a.ok() && b.ok());
  for (PushTicket* t : {&*a, &*b}) {
    for (PushBytes& buffer : t->buffers) {
      float* v = reinterpret_cast<float*>(buffer.mutable_data());
      std::fill(v, v + 4, 1.0f);
    }
  }
  EXPECT_FALSE(shard_->Push(head, std::move(*a))->duplicate);
  EXPECT_TRUE(shard_->Push(head, std::move(*b))->duplicate);
  EXPECT_THAT(Values(*PullNow(1)), Each(0.5f));
}

TEST_F(ShardTest, RefusesBadPushes) {
  struct Case {
    const char* what;
    void (*spoil)(PushHead&);
    StatusCode code;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"stale", [](PushHead& h) { h.step = 0; }, StatusCode::kFailedPrecondition,
       "step 1, but this server is at step 2 (the push is stale) [TD4015]"},
      {"future", [](PushHead& h) { h.step = 5; }, StatusCode::kFailedPrecondition, "at step 2"},
      {"unknown variable", [](PushHead& h) { h.slices[0].variable = "fc_0.ww"; },
       StatusCode::kNotFound, "did you mean \"fc_0.w\""},
      {"unknown offset", [](PushHead& h) { h.slices[0].offset = 2; }, StatusCode::kNotFound,
       "has no slice that begins at element 2"},
      {"offset outside", [](PushHead& h) { h.slices[0].offset = -3; }, StatusCode::kNotFound,
       "not on this server, which has elements [0, 4), [4, 8)"},
      {"wrong shape",
       [](PushHead& h) {
         h.slices[1].desc.shape = Shape{2, 2};
       },
       StatusCode::kInvalidArgument, "is f32[2,2], expected f32[4]"},
      {"wrong type", [](PushHead& h) { h.slices[1].desc.dtype = DType::kBF16; },
       StatusCode::kInvalidArgument, "expected f32[4]"},
      {"twice", [](PushHead& h) { h.slices[1].offset = 0; }, StatusCode::kInvalidArgument,
       "contains two gradients"},
      {"empty", [](PushHead& h) { h.slices.clear(); }, StatusCode::kInvalidArgument,
       "contains no slices"},
      {"rate", [](PushHead& h) { h.learning_rate = std::nanf(""); }, StatusCode::kInvalidArgument,
       "learning rate"},
      {"job", [](PushHead& h) { h.caller.job = "other"; }, StatusCode::kFailedPrecondition,
       "serves job \"job\""},
      {"trainer", [](PushHead& h) { h.caller.trainer = 2; }, StatusCode::kInvalidArgument,
       "expected 0 to 1"},
      {"incarnation", [](PushHead& h) { h.caller.incarnation = 6; },
       StatusCode::kFailedPrecondition, "incarnation 6 are rejected [TD4008]"},
      {"sequence", [](PushHead& h) { h.sequence = 0; }, StatusCode::kFailedPrecondition, "too old"},
  };
  Start(Config(2, UpdatePolicy::kSync));
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1.0f).ok());
  for (const Case& c : cases) {
    PushHead head = Head(Rank(0), 2, 1);
    c.spoil(head);
    const StatusOr<PushOutcome> result = Push(head, 1.0f);
    EXPECT_EQ(result.status().code(), c.code) << c.what << ": " << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(c.message)) << c.what;
  }
  // The rejected pushes must not have changed a value.
  ASSERT_TRUE(Push(Head(Rank(0), 2, 1), 1.0f).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1.0f).ok());
  EXPECT_THAT(Values(*PullNow(2)), Each(-1.0f));
}

TEST_F(ShardTest, RefusesNotFiniteGradientsByName) {
  Start(Config(1, UpdatePolicy::kSync));
  const PushHead head = Head(Rank(0), 1, 0);
  for (float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    PushTicket ticket = *shard_->AdmitPush(head);
    for (PushBytes& b : ticket.buffers) std::memset(b.mutable_data(), 0, 16);
    reinterpret_cast<float*>(ticket.buffers[1].mutable_data())[2] = bad;
    const Status status = shard_->Push(head, std::move(ticket)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("trainer 0 step 1: gradient of fc_0.w, element 6 is"));
  }
  EXPECT_THAT(Values(*PullNow(0)), Each(1.0f));
}

TEST_F(ShardTest, TrainersMustSendTheSameLearningRate) {
  Start(Config(2, UpdatePolicy::kSync));
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0, 0.5f), 1.0f).ok());
  EXPECT_THAT(std::string(Push(Head(Rank(1), 1, 0, 0.25f), 1.0f).status().message()),
              HasSubstr("trainer 1 sends learning rate 0.25, but trainer 0 sent 0.5"));
}

TEST_F(ShardTest, AnotherConfigurationIsRefusedByItsDifference) {
  Start(Config(2, UpdatePolicy::kSync));
  EXPECT_TRUE(shard_->Configure(Rank(1), Config(2, UpdatePolicy::kSync)).ok());
  ShardConfig mode = Config(2, UpdatePolicy::kASync), slices = Config(2, UpdatePolicy::kSync);
  ShardConfig optimizer = Config(2, UpdatePolicy::kSync, "adam"),
              count = Config(3, UpdatePolicy::kSync);
  slices.slices[2].numel = 3;
  EXPECT_THAT(std::string(shard_->Configure(Rank(1), mode).status().message()),
              HasSubstr("mode is a_sync, was sync [TD4004]"));
  EXPECT_THAT(std::string(shard_->Configure(Rank(1), slices).status().message()),
              HasSubstr("slice 2 is fc_0.b [4] [0, 3), was fc_0.b [4] [0, 4)"));
  EXPECT_THAT(std::string(shard_->Configure(Rank(1), optimizer).status().message()),
              HasSubstr("optimizer is adam(), was sgd()"));
  EXPECT_THAT(std::string(shard_->Configure(Rank(1), count).status().message()),
              HasSubstr("trainers is 3, was 2"));
}

TEST_F(ShardTest, BadConfigurationsAreRefused) {
  Make();
  ShardConfig overlap = Config(1, UpdatePolicy::kSync), outside = overlap, name = overlap;
  overlap.slices[1].offset = 3;
  outside.slices[1].offset = std::numeric_limits<int64_t>::max();
  name.slices[0].variable = "../../etc/passwd";
  ShardConfig optimizer = Config(1, UpdatePolicy::kSync, "sdg");
  for (const ShardConfig& config : {overlap, outside, name, optimizer}) {
    const Status status = shard_->Configure(Rank(0), config).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  }
  const Status early = shard_->AdmitPush(Head(Rank(0), 1, 0)).status();
  EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(early.message()), HasSubstr("[TD4005]"));
  EXPECT_TRUE(shard_->Configure(Rank(0), Config(1, UpdatePolicy::kSync)).ok());
}

TEST_F(ShardTest, DeadlineNamesTheMissingTrainer) {
  Start(Config(3, UpdatePolicy::kSync));
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  ASSERT_TRUE(Push(Head(Rank(2), 1, 0), 1.0f).ok());
  auto pulled = Pending();
  PullLater(0, 1, seconds(12), pulled);
  EXPECT_EQ(shard_->NextDeadline(), clock_.Now() + seconds(12));
  clock_.Advance(seconds(11));
  shard_->ExpireWaiters();
  EXPECT_EQ(pulled->status().code(), StatusCode::kUnimplemented);
  clock_.Advance(seconds(1));
  shard_->ExpireWaiters();
  EXPECT_EQ(pulled->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(pulled->status().message()),
              HasSubstr("timed out after 12.0 s: this server waited for trainer 1 at step 1; the "
                        "others arrived [TD4007]"));
  EXPECT_EQ(shard_->NextDeadline(), Time::max());
}

TEST_F(ShardTest, DeadlineNamesTheMissingGradient) {
  Start(Config(1, UpdatePolicy::kSync));
  PushHead part = Head(Rank(0), 1, 0);
  const std::string absent = part.slices.back().variable;
  part.slices.pop_back();
  ASSERT_TRUE(Push(part, 1.0f).ok());
  auto pulled = Pending();
  PullLater(0, 1, seconds(12), pulled);
  clock_.Advance(seconds(12));
  shard_->ExpireWaiters();
  EXPECT_THAT(std::string(pulled->status().message()),
              HasSubstr("timed out after 12.0 s: this server waited for trainer 0 at step 1, which "
                        "did not push a gradient of " +
                        absent + " [TD4007]"));
}

TEST_F(ShardTest, ASilentTrainerIsNamedToEverybodyWhoWaits) {
  ShardConfig config = Config(3, UpdatePolicy::kSync);
  config.step_timeout = seconds(5);
  Start(config);
  for (int r = 0; r < 3; ++r) ASSERT_TRUE(Push(Head(Rank(r), 1, 0), 1.0f).ok());
  clock_.Advance(seconds(1));
  auto first = Pending(), second = Pending();
  for (int r : {0, 2}) ASSERT_TRUE(Push(Head(Rank(r), 2, 1), 1.0f).ok());
  PullLater(0, 2, seconds(60), first);
  PullLater(2, 2, seconds(60), second);
  EXPECT_EQ(shard_->NextDeadline(), clock_.Now() + seconds(4));
  clock_.Advance(seconds(4));
  shard_->ExpireWaiters();
  for (const auto& p : {first, second}) {
    EXPECT_EQ(p->status().code(), StatusCode::kAborted);
    EXPECT_THAT(
        std::string(p->status().message()),
        HasSubstr("trainer 1 is lost: no call for 5.0 s (its last push was for step 1); the "
                  "other trainers wait for this trainer at step 2 [TD4006]"));
  }
}

// The job replaces unresponsive trainers. The other trainers continue to wait, and the shard
// informs the launcher during the wait.
TEST_F(ShardTest, ASilentTrainerThatIsReplacedIsToldOfAndWaitedFor) {
  std::vector<std::pair<int, Duration>> told;
  Shard::Options options;
  options.replaces = true;
  options.on_silent = [&](int trainer, Duration silent) { told.emplace_back(trainer, silent); };
  Make(std::move(options));
  ShardConfig config = Config(2, UpdatePolicy::kSync);
  config.step_timeout = seconds(5);
  Start(config);
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  auto first = Pending(), second = Pending();
  PullLater(0, 1, seconds(60), first);
  clock_.Advance(seconds(5));
  shard_->ExpireWaiters();
  EXPECT_THAT(told, testing::ElementsAre(std::pair(1, Duration(seconds(5)))));
  EXPECT_EQ(shard_->NextDeadline(), clock_.Now() + seconds(1));
  clock_.Advance(seconds(1));
  shard_->ExpireWaiters();
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(first->status().code(), StatusCode::kUnimplemented);  // trainer 0's call still waits
  ASSERT_TRUE(Push(Head(Rank(1, kIncarnation + 1), 1, 0), 1.0f).ok());
  EXPECT_TRUE(first->ok()) << first->status();
  // The wait ends at the deadline of the waiting calls.
  ASSERT_TRUE(Push(Head(Rank(0), 2, 1), 1.0f).ok());
  PullLater(0, 2, seconds(60), second);
  clock_.Advance(seconds(60));
  shard_->ExpireWaiters();
  EXPECT_EQ(second->status().code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(second->status().message()), HasSubstr("trainer 1 is lost: no call for"));
}

TEST_F(ShardTest, AReplacedTrainerPushesTheSameStepAgain) {
  Start(Config(2, UpdatePolicy::kSync));
  PushHead part = Head(Rank(1), 1, 0);
  part.slices.resize(1);
  ASSERT_TRUE(Push(part, 100.0f).ok());
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  ASSERT_TRUE(shard_->Configure(Rank(1, 8), Config(2, UpdatePolicy::kSync)).ok());
  // The push comes from the older incarnation, so the shard rejects it.
  EXPECT_FALSE(Push(Head(Rank(1, 7), 2, 0), 1.0f).ok());
  ASSERT_TRUE(Push(Head(Rank(1, 8), 1, 0), 3.0f).ok());
  EXPECT_THAT(Values(*PullNow(1)), Each(-1.0f));
}

TEST_F(ShardTest, CompleteLowersStepsAndBarriers) {
  Start(Config(2, UpdatePolicy::kSync));
  auto pulled = Pending();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1.0f).ok());
  PullLater(0, 1, seconds(10), pulled);
  EXPECT_EQ(*shard_->Complete(Rank(1)), 1);
  ASSERT_TRUE(pulled->ok()) << pulled->status();
  EXPECT_THAT(Values(**pulled), Each(0.5f));
  Status passed = Unimplemented("pending");
  shard_->Barrier(Rank(0), "epoch", 1, clock_.Now() + seconds(1),
                  [&passed](Status s) { passed = s; });
  EXPECT_TRUE(passed.ok()) << passed;
  EXPECT_EQ(Push(Head(Rank(1), 1, 1), 1.0f).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(ShardTest, BarrierWaitsForAllAndNamesTheMissing) {
  Start(Config(2, UpdatePolicy::kSync));
  std::vector<Status> got(3, Unimplemented("pending"));
  const auto enter = [&](int rank, uint64_t generation, size_t slot) {
    shard_->Barrier(Rank(rank), "epoch", generation, clock_.Now() + seconds(3),
                    [&got, slot](Status s) { got[slot] = s; });
  };
  enter(0, 1, 0);
  EXPECT_EQ(got[0].code(), StatusCode::kUnimplemented);
  enter(1, 1, 1);
  EXPECT_TRUE(got[0].ok() && got[1].ok());
  enter(0, 1, 2);  // trainer 0 repeats the call after its release
  EXPECT_TRUE(got[2].ok());
  enter(1, 2, 1);
  clock_.Advance(seconds(3));
  shard_->ExpireWaiters();
  EXPECT_EQ(got[1].code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(got[1].message()),
              HasSubstr("timed out after 3.0 s: trainer 0 did not arrive"));
}

TEST_F(ShardTest, AsyncAppliesAtOnce) {
  Start(Config(2, UpdatePolicy::kASync));
  EXPECT_EQ(Push(Head(Rank(1), 1, 9), 1.0f)->version, 1u);
  EXPECT_THAT(Values(*PullNow(1)), Each(0.5f));
  EXPECT_EQ(Push(Head(Rank(1), 3, 4), 1.0f)->version, 2u);
  // A later push arrived before this push. The shard must still apply this push once.
  EXPECT_EQ(Push(Head(Rank(1), 2, 4), 1.0f)->version, 3u);
  EXPECT_THAT(Values(*PullNow(3)), Each(-0.5f));
}

TEST_F(ShardTest, WaitInitAndPullWaitForTheFirstValues) {
  Make();
  const ShardConfig config = Config(2, UpdatePolicy::kSync);
  for (int r : {0, 1}) ASSERT_TRUE(shard_->Configure(Rank(r), config).ok());
  StatusOr<uint64_t> initialised = Unimplemented("pending");
  shard_->WaitInit(Rank(1), clock_.Now() + seconds(2),
                   [&](StatusOr<uint64_t> v) { initialised = std::move(v); });
  EXPECT_EQ(initialised.status().code(), StatusCode::kUnimplemented);
  clock_.Advance(seconds(2));
  shard_->ExpireWaiters();
  EXPECT_THAT(std::string(initialised.status().message()),
              HasSubstr("timed out after 2.0 s: trainer 0 sent only 0 of 3 slices"));
  shard_->WaitInit(Rank(1), clock_.Now() + seconds(2),
                   [&](StatusOr<uint64_t> v) { initialised = std::move(v); });
  EXPECT_EQ(Push(Head(Rank(0), 1, 0), 1.0f).status().code(), StatusCode::kFailedPrecondition);
  const SliceValues first = {"fc_0.w", 0, 4, FloatBuffer({1, 2, 3, 4})};
  EXPECT_FALSE(*shard_->InitParams(Rank(0), 5, {first}, {}));
  EXPECT_FALSE(shard_->InitParams(Rank(1), 5, {first}, {}).ok());
  const SliceValues second = {"fc_0.w", 4, 4, FloatBuffer({5, 6, 7, 8})};
  const SliceValues third = {"fc_0.b", 0, 4, FloatBuffer({9, 9, 9, 9})};
  EXPECT_TRUE(*shard_->InitParams(Rank(0), 5, {second, third}, {}));
  ASSERT_TRUE(initialised.ok()) << initialised.status();
  EXPECT_EQ(*initialised, 5u);
}

// The update of this optimizer needs the norm of the whole variable, so the shard rejects slices.
TEST_F(ShardTest, OptimizersOfWholeVariablesRefuseSlices) {
  ShardConfig config = Config(1, UpdatePolicy::kSync, "lamb");
  Make();
  Status status = shard_->Configure(Rank(0), config).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("variable fc_0.w: optimizer lamb needs"));
  config.optimizer = {"sgd", {{"clip_norm", 1.0}}};
  EXPECT_EQ(shard_->Configure(Rank(0), config).status().code(), StatusCode::kInvalidArgument);
  config.optimizer = {"sgd", {{"clip_global_norm", 1.0}}};
  EXPECT_EQ(shard_->Configure(Rank(0), config).status().code(), StatusCode::kUnimplemented);
  config.slices = {{"fc_0.w", Shape{2, 4}, 0, 8}, {"fc_0.b", Shape{4}, 0, 4}};
  config.optimizer = {"lamb", {{"clip_norm", 1.0}}};
  EXPECT_TRUE(shard_->Configure(Rank(0), config).ok());
}

TEST_F(ShardTest, ImageAndRestoreContinueWithTheSameBits) {
  const ShardConfig config = Config(2, UpdatePolicy::kSync, "adam");
  Start(config);
  const auto step = [this](uint64_t s) {
    for (int r : {0, 1}) {
      const StatusOr<PushOutcome> pushed = Push(Head(Rank(r), s + 1, s, 0.1f), 0.3f * (r + 1) + s);
      ASSERT_TRUE(pushed.ok()) << pushed.status();
    }
  };
  step(0);
  step(1);
  // A snapshot contains no push of the incomplete step. After a restore, the trainer must send this
  // push again.
  ASSERT_TRUE(Push(Head(Rank(0), 3, 2, 0.1f), 0.3f + 2).ok());
  const StatusOr<ShardSnapshot> image = shard_->checkpoints().Take();
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->version, 2u);
  EXPECT_GE(image->bytes(), 3u * 12u * 4u);
  ASSERT_TRUE(Push(Head(Rank(1), 3, 2, 0.1f), 0.6f + 2).ok());
  step(3);
  const std::vector<float> expected = Values(*PullNow(4));

  Make();
  ASSERT_TRUE(shard_->checkpoints().Restore(*image).ok());
  EXPECT_TRUE(shard_->Configure(Rank(0), config)->restored);
  EXPECT_TRUE(Push(Head(Rank(0), 2, 1, 0.1f), 1.0f)->duplicate);
  step(2);
  step(3);
  EXPECT_EQ(Values(*PullNow(4)), expected);
}

TEST_F(ShardTest, ATrainerThatWaitsForAStepLearnsOfARestoreAtOnce) {
  Start(Config(2, UpdatePolicy::kSync));
  const auto push = [this](int trainer, uint64_t step) {
    return Push(Head(Rank(trainer), step + 1, step), 1.0f).status();
  };
  ASSERT_TRUE(push(0, 0).ok() && push(1, 0).ok());
  ASSERT_TRUE(push(0, 1).ok());  // belongs to no state yet
  const ShardSnapshot image = *shard_->checkpoints().Take();
  const auto waiting = Pending();
  PullLater(0, 2, std::chrono::minutes(2), waiting);
  EXPECT_EQ(waiting->status().code(), StatusCode::kUnimplemented);
  ASSERT_TRUE(shard_->checkpoints().Restore(image).ok());
  EXPECT_THAT(std::string(waiting->status().message()), HasSubstr("[TD4015]"));
  // The pull arrives after the restore. Trainer 0 believes that it has pushed step 1.
  const auto late = Pending();
  PullLater(0, 2, std::chrono::minutes(2), late);
  EXPECT_EQ(late->status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(late->status().message()),
              HasSubstr("waits for the end of step 2, but this server was restored to step 2"));
  // Trainer 1 has not pushed step 1, and waits for it as usual.
  const auto other = Pending();
  PullLater(1, 2, std::chrono::minutes(2), other);
  EXPECT_EQ(other->status().code(), StatusCode::kUnimplemented);
  // A trainer that pushes the step again waits as usual too.
  ASSERT_TRUE(push(0, 1).ok());
  const auto again = Pending();
  PullLater(0, 2, std::chrono::minutes(2), again);
  EXPECT_EQ(again->status().code(), StatusCode::kUnimplemented);
  ASSERT_TRUE(push(1, 1).ok());
  EXPECT_TRUE(again->ok() && other->ok());
}

TEST_F(ShardTest, RestoreOfAnotherJobIsRefused) {
  Start(Config(1, UpdatePolicy::kSync));
  const ShardSnapshot image = *shard_->checkpoints().Take();
  Make({.job = "other"});
  EXPECT_THAT(
      std::string(shard_->checkpoints().Restore(image).message()),
      HasSubstr("the caller is of job \"job\", but this server serves job \"other\" [TD4002]"));
}

TEST_F(ShardTest, CheckpointHookSeesEveryNthVersion) {
  std::vector<uint64_t> seen;
  Make({.checkpoint_every_steps = 2,
        .on_checkpoint = [&seen](uint64_t version, const SnapshotFn& copy) {
          seen.push_back(copy()->version);
          EXPECT_EQ(version, seen.back());
        }});
  Start(Config(1, UpdatePolicy::kSync));
  for (uint64_t s = 0; s < 5; ++s) ASSERT_TRUE(Push(Head(Rank(0), s + 1, s), 1.0f).ok());
  EXPECT_THAT(seen, testing::ElementsAre(2u, 4u));
}

TEST_F(ShardTest, ShutdownAnswersEverybody) {
  Start(Config(2, UpdatePolicy::kSync));
  auto pulled = Pending();
  PullLater(0, 1, seconds(10), pulled);
  shard_->Shutdown();
  EXPECT_EQ(pulled->status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(PullNow(0).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem::pserver
