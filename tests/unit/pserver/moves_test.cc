// Row buckets that move between two shards: rows, slots, push records, leases, recovery from a log
// and from a checkpoint, and rejected calls.
#include <array>
#include <optional>

#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"
#include "tests/unit/pserver/moves_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

TEST_F(MovesTest, RowsAndSlotsMoveAndGoOnInTheSameBits) {
  const auto a = Start(0, 2), b = Start(1, 2), alone = Start(0, 1);
  const std::vector<uint64_t> ids = {IdIn(5), IdIn(5, 1)};
  std::vector<uint64_t> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  for (uint64_t s = 1; s <= 3; ++s) {
    ASSERT_TRUE(Push(*a, Head(s, 2), sorted).ok());
    ASSERT_TRUE(Push(*alone, Head(s, 2), sorted).ok());
  }
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  EXPECT_EQ(*Pull(*b, sorted), *Pull(*alone, sorted));
  for (uint64_t s = 4; s <= 6; ++s) {
    ASSERT_TRUE(Push(*b, Head(s, 2), sorted).ok());
    ASSERT_TRUE(Push(*alone, Head(s, 2), sorted).ok());
  }
  EXPECT_EQ(*Pull(*b, sorted), *Pull(*alone, sorted));
  EXPECT_EQ(a->Info().tables[0].rows, 0u);
  EXPECT_EQ(b->Info().tables[0].rows, 2u);
  EXPECT_EQ(a->Info().buckets, 511u);
  EXPECT_EQ(b->Info().buckets, 513u);
  EXPECT_EQ(b->Info().map_version, 1u);
  const auto gone = Pull(*a, sorted);
  EXPECT_EQ(gone.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(gone.status().message()),
              HasSubstr("is in row bucket 5, which is not on"));
}

TEST_F(MovesTest, ALeaseThatIsOverLeavesEverythingAsItWas) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(1, 1), ids).ok());
  const auto parcel = Freeze(*a, {5}, 1);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  EXPECT_EQ(Push(*a, Head(2, 1), ids).status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(Push(*a, Head(2, 1), {IdIn(6)}).ok());  // pushes to other row buckets are accepted
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  // The new owner does not serve the bucket before the old owner has released it. Thus the two
  // servers never serve the bucket at the same time.
  EXPECT_EQ(Pull(*b, ids).status().code(), StatusCode::kOutOfRange);
  clock_.Advance(seconds(3));
  EXPECT_TRUE(Push(*a, Head(3, 1), ids).ok());
  EXPECT_EQ(a->migrations().Release("job", parcel->moves).status().code(), StatusCode::kAborted);
  // The next move has a higher number, so the offer of the first move is void.
  const auto rows = *Pull(*a, ids);
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  EXPECT_EQ(*Pull(*b, ids), rows);
  EXPECT_EQ(b->Info().tables[0].rows, 1u);
}

TEST_F(MovesTest, EveryCallMayComeTwice) {
  const auto a = Start(0, 2), b = Start(1, 2);
  ASSERT_TRUE(Push(*a, Head(1, 1), {IdIn(5)}).ok());
  const auto rows = *Pull(*a, {IdIn(5)});
  const auto parcel = Freeze(*a, {5}, 1);
  ASSERT_EQ(Freeze(*a, {5}, 1)->moves, parcel->moves);
  EXPECT_EQ(Freeze(*a, {6}, 1).status().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  const auto map = a->migrations().Release("job", parcel->moves);
  ASSERT_TRUE(map.ok());
  ASSERT_TRUE(a->migrations().Release("job", parcel->moves).ok());
  ASSERT_TRUE(Tell(*b, *map).ok());
  ASSERT_TRUE(Push(*b, Head(1, 1), {IdIn(5)}).ok());
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());  // this late offer changes nothing
  EXPECT_NE(*Pull(*b, {IdIn(5)}), rows);
}

TEST_F(MovesTest, APushThatWasRefusedOnceIsRefusedForEver) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  EXPECT_EQ(Push(*a, Head(1, 1), ids).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(Push(*b, Head(1, 1), ids).ok());  // server b accepts the push that server a rejected
  ASSERT_TRUE(Move(*b, *a, {5}, 0).ok());
  const auto late = Push(*a, Head(1, 1), ids);
  EXPECT_EQ(late.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("has ownership epoch 0"));
  EXPECT_TRUE(Push(*a, Head(2, 1, /*generation=*/1), ids).ok());
}

TEST_F(MovesTest, MarksComeWithTheBucket) {
  const auto a = Start(0, 2), b = Start(1, 2), c = Make(2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(4, 1), ids).ok());
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  ASSERT_TRUE(Move(*b, *c, {5}, 2).ok());  // server c is new: it has had no rows before
  const auto rows = *Pull(*c, ids);
  // The client retries at the new owner a push that it had sent to server 1 as push 4. The new
  // owner must recognise the push by this origin.
  PushHead head = Head(1, 1);
  head.origin_server = 1;
  head.origin_sequence = 4;
  auto asked = Push(*c, head, ids);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->duplicate);
  EXPECT_EQ(*Pull(*c, ids), rows);
  head.origin_sequence = 5;  // the server of origin never accepted this push
  asked = Push(*c, head, ids);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_FALSE(asked->duplicate);
  EXPECT_NE(*Pull(*c, ids), rows);
}

TEST_F(MovesTest, AnOlderIncarnationIsRefusedWhereTheBucketCame) {
  const auto a = Start(0, 2), b = Make(2);
  ASSERT_TRUE(a->Greet({"job", 1, kIncarnation + 1}).ok());
  ASSERT_TRUE(Move(*a, *b, {5}, 2).ok());
  const auto old = Push(*b, Head(9, 1, 0, /*trainer=*/1), {IdIn(5)});
  EXPECT_EQ(old.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(old.status().message()), HasSubstr("was restarted as incarnation"));
}

TEST_F(MovesTest, ACheckpointKnowsWhoServesWhat) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const std::vector<uint64_t> ids = {IdIn(5)};
  ASSERT_TRUE(Push(*a, Head(1, 1), ids).ok());
  const StatusOr<ShardSnapshot> before = a->checkpoints().Take();
  ASSERT_TRUE(Move(*a, *b, {5}, 1).ok());
  const auto offered = Freeze(*a, {6}, 1);
  ASSERT_TRUE(b->migrations().Offer("job", *offered).ok());
  const auto a2 = Make(0), b2 = Make(1);
  ASSERT_TRUE(a2->checkpoints().Restore(*a->checkpoints().Take()).ok());
  ASSERT_TRUE(b2->checkpoints().Restore(*b->checkpoints().Take()).ok());
  EXPECT_EQ(Pull(*a2, ids).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(*Pull(*b2, ids), *Pull(*b, ids));
  EXPECT_EQ(Pull(*b2, {IdIn(6)}).status().code(), StatusCode::kOutOfRange);
  // The source restarted before Release, so it serves the frozen buckets again. The next move must
  // get a new epoch.
  EXPECT_TRUE(Pull(*a2, {IdIn(6)}).ok());
  EXPECT_EQ(Freeze(*a2, {6}, 1)->moves[0].epoch, 2u);
  // A running server cannot restore a state from before a move, because the other servers would
  // keep their state from after the move.
  const Status back = a->checkpoints().Restore(*before);
  EXPECT_EQ(back.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(back.message()), HasSubstr("buckets moved between servers"));
}

TEST_F(MovesTest, WhoServesABucketBelievesNobodyThatItIsAnothers) {
  const auto a = Start(0, 2);
  ASSERT_TRUE(Push(*a, Head(1, 1), {IdIn(5)}).ok());
  const auto rows = *Pull(*a, {IdIn(5)});
  BucketMap wrong;
  wrong.Learn(BucketMove{5, 1000, 1});
  const Status told = Tell(*a, wrong);
  EXPECT_EQ(told.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(told.message()), HasSubstr("this server owns row bucket 5"));
  EXPECT_EQ(*Pull(*a, {IdIn(5)}), rows);
}

// Clients that cache rows must notice that a server has restored an older state, although its
// versions continue from a lower number.
TEST_F(MovesTest, AServerThatGoesBackIsAnotherOne) {
  const auto a = Start(0, 2);
  const StatusOr<ShardSnapshot> image = a->checkpoints().Take();
  const auto incarnation = [&] {
    uint64_t number = 0;
    PullQuery query{.caller = {"job", 0, 0}, .observer = true, .ranges = {}, .at_version = {}};
    query.rows = {{"emb", {IdIn(5)}}};
    a->Pull(query, clock_.Now() + seconds(1),
            [&](const StatusOr<PullResult>& r) { number = r.ok() ? r->server_incarnation : 0; });
    return number;
  };
  const uint64_t before = incarnation();
  ASSERT_NE(before, 0u);
  EXPECT_EQ(incarnation(), before);
  ASSERT_TRUE(a->checkpoints().Restore(*image).ok());
  EXPECT_NE(incarnation(), before);
}

TEST_F(MovesTest, WhatCannotMoveIsRefused) {
  const auto a = Start(0, 2), fresh = Make(2);
  EXPECT_EQ(Freeze(*a, {600}, 1).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Freeze(*a, {5}, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Freeze(*a, {6, 5}, 1).status().code(), StatusCode::kInvalidArgument);
  BucketMigration parcel = *Freeze(*a, {5}, 2);
  parcel.config = {};  // no configuration: trainers configure the target later
  EXPECT_EQ(fresh->migrations().Offer("job", parcel).code(), StatusCode::kFailedPrecondition);
}

TEST(BucketMapTest, GoesTogetherInAnyOrder) {
  BucketMap a, b;
  EXPECT_TRUE(a.Learn({3, 1, 1}));
  EXPECT_TRUE(a.Learn({3, 2, 0}));
  EXPECT_FALSE(a.Learn({3, 1, 2}));
  EXPECT_FALSE(a.Learn({kBucketsMax, 1, 2}));
  EXPECT_TRUE(b.Learn({3, 1, 1}));
  EXPECT_TRUE(b.Learn({4, 5, 2}));
  BucketMap ab = a, ba = b;
  EXPECT_EQ(ab.Learn(b), (std::vector<BucketMove>{{4, 5, 2}}));
  EXPECT_EQ(ba.Learn(a), (std::vector<BucketMove>{{3, 2, 0}}));
  EXPECT_EQ(ab.moves(), ba.moves());
  EXPECT_EQ(ab.version(), 7u);
  EXPECT_EQ(ab.owner(3, 9), 0);
  EXPECT_EQ(ab.owner(5, 9), 9);
}

// A fixture for jobs with max_staleness, in which trainers wait for each other.
class StaleMovesTest : public MovesTest {
 protected:
  // Pulls rows as `trainer`. The reply comes when all trainers have reached step `min_step`.
  // answers_[trainer] gets the status; it is empty while the call waits.
  void PullBehind(Shard& shard, int trainer, uint64_t min_step, const std::vector<uint64_t>& ids) {
    answers_[trainer].reset();
    PullQuery query{.caller = {"job", trainer, kIncarnation}, .ranges = {}, .at_version = {}};
    query.min_step = min_step;
    query.rows = {{"emb", ids}};
    shard.Pull(query, clock_.Now() + seconds(60),
               [this, trainer](const StatusOr<PullResult>& r) { answers_[trainer] = r.status(); });
  }
  std::array<std::optional<Status>, 2> answers_;
};

TEST_F(StaleMovesTest, WhoWaitsForRowsWhereTrainersPushNoneAnyMoreIsTold) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const uint64_t id = IdIn(FirstBucket(1, 2));
  ASSERT_TRUE(Push(*b, Head(1, 1), {id}).ok());  // trainer 0 pushes first and pulls later
  PullBehind(*b, 0, 1, {id});
  EXPECT_FALSE(answers_[0].has_value());
  const auto all = b->migrations().Exchange({"job", 0, 0}, /*observer=*/true, {});
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_TRUE(Move(*b, *a, all->buckets, 0).ok());
  ASSERT_TRUE(answers_[0].has_value());
  EXPECT_EQ(answers_[0]->code(), StatusCode::kOutOfRange);
  PullBehind(*b, 0, 1, {});
  EXPECT_EQ(answers_[0]->code(), StatusCode::kOutOfRange);
}

// A restarted server does not know the steps of the trainers. It learns the step of a trainer from
// the trainer's pull. The last trainer that pulls need not wait.
TEST_F(StaleMovesTest, AServerThatSawNoPushesLearnsHowFarTrainersAre) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const uint64_t id = IdIn(FirstBucket(1, 2));
  for (const int trainer : {0, 1}) {
    ASSERT_TRUE(Push(*b, Head(7, 1, 0, trainer), {id}).ok());
  }
  const auto b2 = Make(1);
  ASSERT_TRUE(b2->checkpoints().Restore(*b->checkpoints().Take()).ok());
  PullBehind(*b2, 0, 8, {id});
  EXPECT_FALSE(answers_[0].has_value());
  PullBehind(*b2, 1, 7, {id});
  EXPECT_EQ(answers_[1], OkStatus());
  EXPECT_FALSE(answers_[0].has_value());
  PullBehind(*b2, 1, 8, {id});
  EXPECT_EQ(answers_[1], OkStatus());
  EXPECT_EQ(answers_[0], OkStatus());
}

TEST_F(StaleMovesTest, BucketsBringHowFarTrainersAreToAServerThatSawOlderPushes) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const int bucket = FirstBucket(1, 2);
  ASSERT_TRUE(Push(*a, Head(1, 1, 0, 1), {IdIn(5)}).ok());
  ASSERT_TRUE(Push(*b, Head(7, 1, 0, 1), {IdIn(bucket)}).ok());
  ASSERT_TRUE(Move(*b, *a, {bucket}, 0).ok());
  PullBehind(*a, 0, 8, {IdIn(bucket)});
  EXPECT_EQ(answers_[0], OkStatus());
}

// A bucket that moves to a server brings the steps of the trainers with it. The server must then
// reply to the calls that wait for these steps.
TEST_F(StaleMovesTest, WhoWaitsIsAnsweredOnceBucketsSayThatTheOthersAreFarEnough) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const int bucket = FirstBucket(1, 2);
  ASSERT_TRUE(Push(*b, Head(7, 1, 0, 0), {IdIn(bucket)}).ok());
  ASSERT_TRUE(Push(*b, Head(7, 1, 0, 1), {IdIn(bucket)}).ok());
  PullBehind(*a, 0, 8, {IdIn(5)});
  EXPECT_FALSE(answers_[0].has_value());
  ASSERT_TRUE(Move(*b, *a, {bucket}, 0).ok());
  EXPECT_EQ(answers_[0], OkStatus());
}

// A trainer that waits at another server reports its step to this server once a second.
TEST_F(StaleMovesTest, ATrainerSaysHowFarItIsWithoutAPull) {
  const auto a = Start(0, 1);
  const auto say = [&](uint64_t min_step) {
    EXPECT_TRUE(
        a->migrations().Exchange({"job", 1, kIncarnation}, /*observer=*/false, {}, min_step).ok());
  };
  PullBehind(*a, 0, 8, {IdIn(5)});
  say(7);
  EXPECT_FALSE(answers_[0].has_value());
  say(8);
  EXPECT_EQ(answers_[0], OkStatus());
}

}  // namespace
}  // namespace tandem::pserver
