// Buckets that move between two shards of a job whose pushes have PushHeader::once. They move when
// both servers have the same steps of each trainer.
#include "absl/strings/str_cat.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"
#include "tests/unit/pserver/moves_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two servers. Server 0 has step 2 of trainer 0, which is on its way to server 1.
class OnceMovesTest : public MovesTest {
 protected:
  OnceMovesTest() {
    each_step_once_ = true;
    a_ = Start(0, 2);
    b_ = Start(1, 2);
    for (const uint64_t step : {0, 1}) {
      for (const int trainer : {0, 1}) {
        EXPECT_TRUE(PushStep(*a_, trainer, step, {Id()}).ok());
        EXPECT_TRUE(PushStep(*b_, trainer, step, {}).ok());
      }
    }
    EXPECT_TRUE(PushStep(*a_, 0, 2, {Id()}).ok());
  }
  static uint64_t Id() { return IdIn(kBucket); }
  // Pushes a gradient for `ids` in this step. Returns whether the push was a duplicate.
  StatusOr<bool> PushStep(Shard& shard, int trainer, uint64_t step,
                          const std::vector<uint64_t>& ids, uint64_t generation = 0,
                          uint64_t incarnation = kIncarnation) {
    PushHead head = Head(++sequence_, ids.size(), generation, trainer);
    head.caller.incarnation = incarnation;
    head.step = step;
    head.once = true;
    TD_ASSIGN_OR_RETURN(const PushOutcome outcome, Push(shard, head, ids));
    return outcome.duplicate;
  }
  static FreezeRequest Order(const std::vector<uint64_t>& steps, int target = 1) {
    FreezeRequest order{{kBucket}, target, absl::StrCat("host:", target), seconds(2)};
    order.trainer_steps = steps;
    order.knows_trainer_steps = true;
    return order;
  }
  static StatusOr<BucketMigration> Freeze(Shard& shard, const std::vector<uint64_t>& steps = {}) {
    return shard.migrations().Freeze("job", Order(steps));
  }
  // Brings both servers to the same steps, and offers the bucket to server 1.
  StatusOr<BucketMigration> Offer() {
    for (Shard* const shard : {b_.get(), a_.get()}) TD_RETURN_IF_ERROR(Freeze(*shard).status());
    TD_RETURN_IF_ERROR(Freeze(*b_, {3, 2}).status());
    TD_ASSIGN_OR_RETURN(BucketMigration parcel, Freeze(*a_, {3, 2}));
    TD_RETURN_IF_ERROR(PushStep(*b_, 0, 2, {}).status());
    TD_RETURN_IF_ERROR(b_->migrations().Offer("job", parcel));
    return parcel;
  }
  static bool Waits(const StatusOr<bool>& pushed) {
    return pushed.status().code() == StatusCode::kOutOfRange;
  }

  static constexpr int kBucket = 5;
  uint64_t sequence_ = 0;
  std::unique_ptr<Shard> a_, b_;
};

TEST_F(OnceMovesTest, BucketsMoveBetweenTheStepsOfEachTrainer) {
  for (Shard* const shard : {b_.get(), a_.get()}) {
    const auto asked = Freeze(*shard);
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_TRUE(asked->moves.empty()) << "the coordinator does not know the steps yet";
    EXPECT_THAT(asked->trainer_steps, ElementsAre(shard == a_.get() ? 3 : 2, 2));
  }
  EXPECT_TRUE(Waits(PushStep(*b_, 0, 2, {}))) << "no server accepts a new step";
  ASSERT_TRUE(Freeze(*b_, {3, 2}).ok());
  const auto parcel = Freeze(*a_, {3, 2});
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  ASSERT_EQ(parcel->moves.size(), 1u);
  EXPECT_FALSE(*PushStep(*b_, 0, 2, {})) << "the missing step";
  for (Shard* const shard : {a_.get(), b_.get()}) {
    EXPECT_TRUE(Waits(PushStep(*shard, 0, 3, {})));
    EXPECT_TRUE(Waits(PushStep(*shard, 1, 2, {})));
  }
  EXPECT_TRUE(Pull(*a_, {Id()}).ok()) << "pulls do not wait";
  EXPECT_THAT(Freeze(*b_, {3, 2})->trainer_steps, ElementsAre(3, 2));
  ASSERT_TRUE(b_->migrations().Offer("job", *parcel).ok());
  const auto map = a_->migrations().Release("job", parcel->moves);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_TRUE(Waits(PushStep(*b_, 0, 3, {}))) << "server 1 does not know of the release yet";
  ASSERT_TRUE(Tell(*b_, *map).ok());
  // Both servers reject what was split for the owners before the move. So each server gets one
  // message of a step.
  for (Shard* const shard : {a_.get(), b_.get()}) EXPECT_TRUE(Waits(PushStep(*shard, 0, 3, {})));
  EXPECT_FALSE(*PushStep(*a_, 0, 3, {}, 1));
  EXPECT_FALSE(*PushStep(*b_, 0, 3, {Id()}, 1));
}

// A new process of trainer 0 repeats step 2, which server 0 has and server 1 does not have. If the
// bucket moved now, server 1 would count the step twice for its rows.
TEST_F(OnceMovesTest, ServersWithDifferentStepsMoveNothing) {
  for (Shard* const shard : {b_.get(), a_.get()}) ASSERT_TRUE(Freeze(*shard).ok());
  ASSERT_TRUE(Freeze(*b_, {3, 2}).ok());
  const auto parcel = Freeze(*a_, {3, 2});
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  const Status early = b_->migrations().Offer("job", *parcel);
  EXPECT_EQ(early.code(), StatusCode::kAborted) << early;
  EXPECT_THAT(std::string(early.message()), HasSubstr("different steps of a trainer"));
  EXPECT_TRUE(*PushStep(*a_, 0, 2, {Id()}, 0, kIncarnation + 1)) << "server 0 has the step";
  EXPECT_FALSE(*PushStep(*b_, 0, 2, {}, 0, kIncarnation + 1));
  EXPECT_TRUE(b_->migrations().Offer("job", *parcel).ok());
}

TEST_F(OnceMovesTest, AnAgreedStepMustNotBeInThePast) {
  ASSERT_TRUE(Freeze(*a_).ok());
  EXPECT_EQ(Freeze(*a_, {2, 2}).status().code(), StatusCode::kAborted);
  EXPECT_EQ(Freeze(*a_, {3}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Freeze(*a_, {3, 2})->moves.size(), 1u);
  EXPECT_EQ(Freeze(*a_, {4, 2}).status().code(), StatusCode::kAborted) << "other steps are agreed";
}

TEST_F(OnceMovesTest, AfterTheLeaseTrainersContinue) {
  ASSERT_TRUE(Freeze(*a_).ok());
  EXPECT_TRUE(Waits(PushStep(*a_, 1, 2, {Id()})));
  clock_.Advance(seconds(3));
  EXPECT_FALSE(*PushStep(*a_, 1, 2, {Id()}));
}

// The coordinator is lost after the offer. Server 1 must not accept a step before it knows who has
// the bucket. Server 0 takes the bucket back after the lease.
TEST_F(OnceMovesTest, AnAbandonedMoveIsTakenBack) {
  const auto parcel = Offer();
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  clock_.Advance(seconds(3));
  EXPECT_TRUE(Waits(PushStep(*b_, 0, 3, {})));
  EXPECT_TRUE(*PushStep(*b_, 0, 2, {}, 0, kIncarnation + 1)) << "an old step has no effect";
  EXPECT_FALSE(*PushStep(*a_, 0, 3, {Id()}));
  const auto answer = a_->migrations().Exchange({"job", 0, 0}, /*observer=*/true, {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(Tell(*b_, answer->map).ok());
  EXPECT_FALSE(*PushStep(*b_, 0, 3, {}, 0, kIncarnation + 1));
  EXPECT_EQ(a_->migrations().Release("job", parcel->moves).status().code(), StatusCode::kAborted);
}

// The offer is in the checkpoint of the target.
TEST_F(OnceMovesTest, ARestartedTargetStillWaits) {
  const auto parcel = Offer();
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  const auto later = Make(1);
  const ShardSnapshot image = *b_->checkpoints().Take();
  ASSERT_TRUE(later->checkpoints().Restore(image).ok());
  later->checkpoints().Resume(image);
  EXPECT_TRUE(Waits(PushStep(*later, 0, 3, {})));
  ASSERT_TRUE(Tell(*later, *a_->migrations().Release("job", parcel->moves)).ok());
  EXPECT_FALSE(*PushStep(*later, 0, 3, {Id()}, 1));
}

// Server 0 has step 2 of an older process, and server 1 has it of the new process. The message of
// the new process to server 0 is on its way when the bucket moves. Server 0 refuses it, so the
// process sends its rows to server 1.
TEST_F(OnceMovesTest, ARepeatedStepHasNoEffectAtItsNewServer) {
  EXPECT_FALSE(*PushStep(*b_, 0, 2, {}, 0, kIncarnation + 1));
  for (Shard* const shard : {b_.get(), a_.get()}) {
    ASSERT_TRUE(Freeze(*shard).ok());
    ASSERT_TRUE(Freeze(*shard, {3, 2}).ok());
  }
  const auto parcel = Freeze(*a_, {3, 2});
  ASSERT_TRUE(b_->migrations().Offer("job", *parcel).ok());
  ASSERT_TRUE(Tell(*b_, *a_->migrations().Release("job", parcel->moves)).ok());
  EXPECT_TRUE(Waits(PushStep(*a_, 0, 2, {Id()}, 0, kIncarnation + 1)));
  EXPECT_TRUE(*PushStep(*b_, 0, 2, {Id()}, 1, kIncarnation + 1));
  EXPECT_FALSE(*PushStep(*b_, 0, 3, {Id()}, 1, kIncarnation + 1));
}

// A server without buckets gets the steps of the source, and the number of steps of older
// processes: a new process repeats steps for a third server.
TEST_F(OnceMovesTest, AServerWithoutBucketsTakesOverTheSteps) {
  ASSERT_TRUE(a_->Greet({"job", 0, kIncarnation + 1}).ok());
  const auto c = Make(2);
  const auto freeze = [&](const std::vector<uint64_t>& steps) {
    return a_->migrations().Freeze("job", Order(steps, 2));
  };
  ASSERT_TRUE(freeze({}).ok());
  const auto parcel = freeze({3, 2});
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  ASSERT_TRUE(c->migrations().Offer("job", *parcel).ok());
  ASSERT_TRUE(Tell(*c, *a_->migrations().Release("job", parcel->moves)).ok());
  EXPECT_EQ(c->Info().trainers[0].steps, 3u);
  EXPECT_TRUE(*PushStep(*c, 0, 1, {Id()}, 1, kIncarnation + 1));
  EXPECT_TRUE(*PushStep(*c, 0, 2, {Id()}, 1, kIncarnation + 1));
  EXPECT_FALSE(*PushStep(*c, 0, 3, {Id()}, 1, kIncarnation + 1));
}

TEST_F(OnceMovesTest, ACoordinatorOfAnEarlierVersionIsRefused) {
  FreezeRequest order = Order({});
  order.knows_trainer_steps = false;
  const Status refused = a_->migrations().Freeze("job", order).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the job has a stream"));
  EXPECT_FALSE(*PushStep(*a_, 1, 2, {Id()})) << "pushes do not wait";
}

// A job begins to read a stream, or no stream any more, on servers that it already uses.
TEST_F(OnceMovesTest, ConfigureChangesHowBucketsMove) {
  const auto configure = [&](Shard& shard, int index, bool once) {
    each_step_once_ = once;
    return shard.Configure({"job", 0, kIncarnation}, Config(index, 2)).status();
  };
  const auto is_once = [](Shard& shard) { return shard.migrations().Look("job")->each_step_once; };
  ASSERT_TRUE(Freeze(*a_).ok());
  ASSERT_TRUE(configure(*a_, 0, false).ok());
  EXPECT_FALSE(is_once(*a_));
  EXPECT_FALSE(*PushStep(*a_, 1, 2, {Id()})) << "the freeze has ended";
  EXPECT_TRUE(is_once(*a_)) << "the push says that the job has a stream";
  ASSERT_TRUE(configure(*a_, 0, false).ok());
  ASSERT_TRUE(configure(*a_, 0, true).ok());
  EXPECT_TRUE(is_once(*a_));
  // An added server does not get Configure.
  ASSERT_TRUE(configure(*b_, 1, false).ok());
  ShardCarrier carrier({a_.get(), b_.get()}, clock_, [](int) {});
  ps::BucketMigrator mover(carrier, {"host:0", "host:1"}, {});
  EXPECT_THAT(std::string(mover.Run({{0, 1, {kBucket}}}, nullptr).message()),
              HasSubstr("pserver 1 (host:1) does not know yet whether the job has a stream"));
}

// The coordinator waits for steps that are on their way, and names a trainer whose steps do not
// arrive.
TEST_F(OnceMovesTest, ACoordinatorWaitsForTheMissingSteps) {
  int left = 1'000'000;  // number of calls until the missing step arrives
  ShardCarrier carrier({a_.get(), b_.get()}, clock_, [&](int) {
    clock_.Advance(std::chrono::milliseconds(100));
    if (--left != 0) return;
    EXPECT_FALSE(*PushStep(*b_, 0, 2, {}));
  });
  ps::BucketMigrator mover(carrier, {"host:0", "host:1"}, {.patience = seconds(10)});
  const Status status = mover.Run({{0, 1, {kBucket}}}, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("pserver 0 (host:0) has 3 steps of trainer 0, but pserver 1 (host:1) has 2 "
                        "[TD4007]"));
  EXPECT_TRUE(a_->Info().buckets == static_cast<size_t>(FirstBucket(1, 2)));
  EXPECT_FALSE(*PushStep(*a_, 1, 2, {Id()})) << "the freeze has ended";
  EXPECT_FALSE(*PushStep(*b_, 1, 2, {}));
  left = 9;  // after two ExchangeMap and six FreezeBuckets
  EXPECT_TRUE(mover.Run({{0, 1, {kBucket}}}, nullptr).ok());
  EXPECT_FALSE(*PushStep(*b_, 0, 3, {Id()}, 1));
}

// Server 0 gave its bucket away and stopped. A trainer sends its push to the new owner, which knows
// by the step whether server 0 took the push.
TEST_F(OnceMovesTest, ThePushToAServerThatIsGoneCountsOnce) {
  const auto parcel = Offer();
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  ASSERT_TRUE(Tell(*b_, *a_->migrations().Release("job", parcel->moves)).ok());
  for (const uint64_t step : {2, 3}) {
    PushHead head = Head(++sequence_, 1, 1);
    head.step = step;
    head.once = true;
    head.origin_server = 1;
    head.origin_sequence = step + 100;
    const auto pushed = Push(*b_, head, {Id()});
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    EXPECT_EQ(pushed->duplicate, step == 2);
  }
}

}  // namespace
}  // namespace tandem::pserver
