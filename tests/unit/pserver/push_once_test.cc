// Tests pushes whose steps are positions in the trainer's data (PsJobRules::each_step_once): the
// servers accept each step of a trainer once, also from a new process of the trainer.
#include "pserver/shard/checkpoint_calls.h"
#include "tests/unit/pserver/moves_fixture.h"
#include "tests/unit/pserver/pserver_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class PushOnceTest : public PserverTest {
 protected:
  // Starts another process of trainer 0, which has the variables "a" on server 0 and "b" on server
  // 1. Each push subtracts 1 from the variables that it has.
  std::unique_ptr<ps::PsClient> Join() {
    ps::PsOptions options;
    options.rules.each_step_once = true;
    auto client = *Client(0, 1, options);
    const auto state =
        client->Configure({{"a", Shape{1}}, {"b", Shape{1}}}, ps::PsMode::kASync, {});
    EXPECT_TRUE(state.ok()) << state.status();
    values_ = {100, 100};
    const auto version = client->InitOrFetch(Tensors());
    EXPECT_TRUE(version.ok()) << version.status();
    return client;
  }
  std::vector<ps::PsTensor> Tensors() {
    return {{"a", values_.data(), 1}, {"b", values_.data() + 1, 1}};
  }
  static Status Push(ps::PsClient& client, uint64_t step,
                     const std::vector<std::string>& variables) {
    static const float one = 1;
    std::vector<ps::PsConstTensor> gradients;
    for (const std::string& name : variables) gradients.push_back({name, &one, 1});
    return PushAndWait(client, step, 1.0f, gradients);
  }
  std::vector<float> Values(ps::PsClient& client) {
    EXPECT_TRUE(PullAndWait(client, 0, Tensors()).ok());
    return values_;
  }

  std::vector<float> values_;
};

TEST_F(PushOnceTest, ANewProcessRepeatsWhatSomeServersLack) {
  StartServers(2);
  {
    const auto first = Join();
    EXPECT_EQ(ps::StepsPushed(*first->ServerInfo()), 0u);
    for (const uint64_t step : {0, 1}) ASSERT_TRUE(Push(*first, step, {"a", "b"}).ok());
    ASSERT_TRUE(Push(*first, 2, {"a"}).ok());  // the process is killed before server 1 has step 2
    ASSERT_TRUE(Push(*first, 3, {"a"}).ok());
  }
  const auto second = Join();
  EXPECT_EQ(ps::StepsPushed(*second->ServerInfo()), 2u);
  EXPECT_EQ(ps::FirstStep(*second->ServerInfo()), 2u);
  for (const uint64_t step : {2, 3, 4}) ASSERT_TRUE(Push(*second, step, {"a", "b"}).ok());
  EXPECT_THAT(Values(*second), ElementsAre(95, 95));
  // A process may send a step in several messages.
  ASSERT_TRUE(Push(*second, 5, {"a"}).ok());
  ASSERT_TRUE(Push(*second, 5, {"b"}).ok());
  ASSERT_TRUE(Push(*second, 5, {"b"}).ok());
  EXPECT_THAT(Values(*second), ElementsAre(94, 93));
  EXPECT_EQ(ps::StepsPushed(*second->ServerInfo()), 6u);
  EXPECT_EQ(ps::FirstStep(*second->ServerInfo()), 2u);
}

TEST_F(PushOnceTest, WithoutTheRuleStepsAreNotCounted) {
  StartServers(2);
  {
    auto client = *Client(0, 1);
    ASSERT_TRUE(client->Configure({{"a", Shape{1}}, {"b", Shape{1}}}, ps::PsMode::kASync, {}).ok());
    values_ = {100, 100};
    ASSERT_TRUE(client->InitOrFetch(Tensors()).ok());
    ASSERT_TRUE(Push(*client, 0, {"a", "b"}).ok());
    EXPECT_EQ(ps::StepsPushed(*client->ServerInfo()), 0u);
  }
  const auto next = Join();
  ASSERT_TRUE(Push(*next, 0, {"a", "b"}).ok());
  EXPECT_THAT(Values(*next), ElementsAre(98, 98));
}

// The log of the servers has the pushes and the new process of the trainer.
TEST_F(PushOnceTest, RestartedServersKnowTheSteps) {
  PserverOptions options;
  options.data_dir = dir_;
  options.durability = Durability::kLogged;
  const auto restart = [&] {
    servers_.clear();  // ends the servers, which save nothing
    endpoints_.clear();
    StartServers(2, options);
  };
  StartServers(2, options);
  {
    const auto first = Join();
    for (const uint64_t step : {0, 1}) ASSERT_TRUE(Push(*first, step, {"a", "b"}).ok());
    ASSERT_TRUE(Push(*first, 2, {"a"}).ok());
  }
  restart();
  {
    const auto second = Join();
    EXPECT_EQ(ps::StepsPushed(*second->ServerInfo()), 2u);
    ASSERT_TRUE(Push(*second, 2, {"a"}).ok());
    EXPECT_THAT(Values(*second), ElementsAre(97, 98));
  }
  restart();
  const auto third = Join();
  EXPECT_EQ(ps::StepsPushed(*third->ServerInfo()), 2u);
  for (const uint64_t step : {2, 3}) ASSERT_TRUE(Push(*third, step, {"a", "b"}).ok());
  EXPECT_THAT(Values(*third), ElementsAre(96, 96));
}

class ShardPushOnceTest : public MovesTest {
 protected:
  // Pushes a gradient for `id` in this step. Returns whether the push was a duplicate.
  static StatusOr<bool> Push(Shard& shard, uint64_t sequence, uint64_t step, uint64_t id,
                             uint64_t incarnation = kIncarnation) {
    PushHead head = Head(sequence, 1);
    head.caller.incarnation = incarnation;
    head.step = step;
    head.once = true;
    TD_ASSIGN_OR_RETURN(const PushOutcome outcome, MovesTest::Push(shard, head, {id}));
    return outcome.duplicate;
  }
  static uint64_t StepsOf(Shard& shard) { return shard.Info().trainers[0].steps; }
};

// A checkpoint has the steps, and the number of steps at the begin of the trainer's process.
TEST_F(ShardPushOnceTest, CheckpointsHaveTheSteps) {
  const auto a = Start(0, 1);
  EXPECT_FALSE(*Push(*a, 1, 0, 5));
  EXPECT_FALSE(*Push(*a, 2, 1, 5));
  ASSERT_TRUE(a->Greet({"job", 0, kIncarnation + 1}).ok());
  EXPECT_FALSE(*Push(*a, 1, 2, 5, kIncarnation + 1));
  const auto b = Make(0);
  const ShardSnapshot image = *a->checkpoints().Take();
  ASSERT_TRUE(b->checkpoints().Restore(image).ok());
  b->checkpoints().Resume(image);
  EXPECT_EQ(StepsOf(*b), 3u);
  EXPECT_TRUE(*Push(*b, 2, 1, 5, kIncarnation + 1));
  EXPECT_FALSE(*Push(*b, 3, 2, 5, kIncarnation + 1)) << "a part of a step of the same process";
  ASSERT_TRUE(b->Greet({"job", 0, kIncarnation + 2}).ok());
  EXPECT_TRUE(*Push(*b, 1, 2, 5, kIncarnation + 2));
  EXPECT_FALSE(*Push(*b, 2, 3, 5, kIncarnation + 2));
}

// A restore discards pushes, so the trainer must continue at an earlier step.
TEST_F(ShardPushOnceTest, ARestoreUnderARunningTrainerIsReported) {
  const auto a = Start(0, 1);
  EXPECT_FALSE(*Push(*a, 1, 0, 5));
  const ShardSnapshot image = *a->checkpoints().Take();
  EXPECT_FALSE(*Push(*a, 2, 1, 5));
  ASSERT_TRUE(a->checkpoints().Restore(image).ok());
  const auto refused = Push(*a, 3, 2, 5);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ToString(refused.status()), HasSubstr("[TD4015]"));
  ASSERT_TRUE(a->Greet({"job", 0, kIncarnation + 1}).ok());
  EXPECT_EQ(StepsOf(*a), 1u);
  EXPECT_FALSE(*Push(*a, 1, 1, 5, kIncarnation + 1));
}

// The snapshot is older than the process of the trainer, which thus is unknown after the restore. A
// restarted server rejects the process too.
TEST_F(ShardPushOnceTest, ARestoreOfAStateBeforeTheProcessIsReported) {
  const auto a = Start(0, 1);
  EXPECT_FALSE(*Push(*a, 1, 0, 5));
  const ShardSnapshot image = *a->checkpoints().Take();
  ASSERT_TRUE(a->Greet({"job", 0, kIncarnation + 1}).ok());
  EXPECT_FALSE(*Push(*a, 1, 1, 5, kIncarnation + 1));
  ASSERT_TRUE(a->checkpoints().Restore(image).ok());
  const auto is_refused = [](Shard& shard) {
    for (const Status& refused : {Push(shard, 2, 2, 5, kIncarnation + 1).status(),
                                  shard.Complete({"job", 0, kIncarnation + 1}).status()}) {
      EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
      EXPECT_THAT(ToString(refused), HasSubstr("[TD4015]"));
    }
  };
  ASSERT_TRUE(a->Greet({"job", 0, kIncarnation + 1}).ok());  // any call but a push
  is_refused(*a);
  const auto b = Make(0);
  const ShardSnapshot restored = *a->checkpoints().Take();
  ASSERT_TRUE(b->checkpoints().Restore(restored).ok());
  b->checkpoints().Resume(restored);
  is_refused(*b);
  ASSERT_TRUE(b->Greet({"job", 0, kIncarnation + 2}).ok());
  EXPECT_EQ(StepsOf(*b), 1u);
  EXPECT_FALSE(*Push(*b, 1, 1, 5, kIncarnation + 2));
  EXPECT_TRUE(b->Complete({"job", 0, kIncarnation + 2}).ok());
}

// The first restore may fail after it has replaced the state. The second one finds a state without
// steps.
TEST_F(ShardPushOnceTest, ARepeatedRestoreIsReportedToo) {
  const auto a = Start(0, 1);
  const ShardSnapshot empty = *a->checkpoints().Take();
  EXPECT_FALSE(*Push(*a, 1, 0, 5));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(a->checkpoints().Restore(empty).ok());
  const auto refused = Push(*a, 2, 1, 5);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ToString(refused.status()), HasSubstr("[TD4015]"));
}

}  // namespace
}  // namespace tandem::pserver
