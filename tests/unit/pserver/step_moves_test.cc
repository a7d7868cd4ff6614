// Row buckets that move between two shards in sync mode. The move takes place before a step.
// Neither server begins this step before it knows the owner of the rows.
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/migration_calls.h"
#include "tests/unit/pserver/moves_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class StepMovesTest : public MovesTest {
 protected:
  StepMovesTest() { mode_ = UpdatePolicy::kSync; }

  StatusOr<PushOutcome> PushStep(Shard& shard, int trainer, uint64_t step,
                                 const std::vector<uint64_t>& ids, uint64_t generation = 0) {
    PushHead head = Head(++sequence_, ids.size(), generation, trainer);
    head.step = step;
    return Push(shard, head, ids, static_cast<float>(step * 3 + static_cast<uint64_t>(trainer)));
  }
  // Pushes the gradients of both trainers for a step.
  void Step(Shard& shard, uint64_t step, const std::vector<uint64_t>& ids,
            uint64_t generation = 0) {
    for (const int trainer : {0, 1}) {
      const auto pushed = PushStep(shard, trainer, step, ids, generation);
      ASSERT_TRUE(pushed.ok()) << pushed.status();
    }
    ASSERT_EQ(shard.Info().version, step + 1);
  }
  static FreezeRequest Before(uint64_t step, int target, const std::vector<int>& buckets) {
    return {buckets, target, "host:1", seconds(2), step};
  }
  // Freezes the buckets on both servers. Expects that neither server has reached the step of the
  // move.
  void Ask(Shard& from, Shard& to, const FreezeRequest& order) {
    for (Shard* const shard : {&from, &to}) {
      const auto asked = shard->migrations().Freeze("job", order);
      ASSERT_TRUE(asked.ok()) << asked.status();
      EXPECT_TRUE(asked->moves.empty());
    }
  }
  StatusOr<std::vector<float>> PullAt(Shard& shard, const std::vector<uint64_t>& ids,
                                      uint64_t version) {
    PullQuery query{.caller = {"job", 0, kIncarnation}, .ranges = {}, .at_version = version};
    query.min_version = version;
    return Pull(shard, ids, query);
  }
  // Returns two ids of bucket 5 and one id of bucket 6.
  static std::vector<uint64_t> Ids() {
    std::vector<uint64_t> ids = {IdIn(5), IdIn(5, 1), IdIn(6)};
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  static std::vector<uint64_t> In(int bucket) {
    std::vector<uint64_t> ids = Ids();
    std::erase_if(ids, [bucket](uint64_t id) { return RowBucket(id) != bucket; });
    return ids;
  }
  // Runs step 0 on both servers. Offers bucket 5 of `from` to `to` before step 1. Returns the
  // offer.
  StatusOr<BucketMigration> OfferBeforeStep1(Shard& from, Shard& to) {
    const FreezeRequest order = Before(1, 1, {5});
    Ask(from, to, order);
    Step(from, 0, Ids());
    Step(to, 0, {});
    TD_ASSIGN_OR_RETURN(BucketMigration parcel, from.migrations().Freeze("job", order));
    TD_RETURN_IF_ERROR(to.migrations().Offer("job", parcel));
    return parcel;
  }

  uint64_t sequence_ = 0;
};

TEST_F(StepMovesTest, RowsMoveBeforeAStepAndGoOnInTheSameBits) {
  const auto a = Start(0, 2), b = Start(1, 2), alone = Start(0, 1);
  for (const uint64_t step : {0, 1}) {
    Step(*a, step, Ids());
    Step(*alone, step, Ids());
    Step(*b, step, {});
  }
  const FreezeRequest order = Before(3, 1, {5});
  Ask(*a, *b, order);
  Step(*a, 2, Ids());  // the servers accept pushes up to step 2
  Step(*alone, 2, Ids());
  EXPECT_TRUE(PushStep(*b, 0, 2, {}).ok());
  EXPECT_TRUE(PushStep(*b, 1, 2, {}).ok());
  // From step 3 on, neither server accepts pushes. Both replies name the buckets that the server
  // serves.
  for (Shard* const shard : {a.get(), b.get()}) {
    const auto held = PushStep(*shard, 0, 3, {});
    EXPECT_EQ(held.status().code(), StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(held.status().message()), HasSubstr("row buckets move before step 4"));
  }
  EXPECT_EQ(*PullAt(*a, Ids(), 3), *PullAt(*alone, Ids(), 3));
  EXPECT_EQ(b->migrations().Freeze("job", order)->version, 3u);
  const auto parcel = a->migrations().Freeze("job", order);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  ASSERT_EQ(parcel->moves.size(), 1u);
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  clock_.Advance(seconds(1));
  EXPECT_EQ(PullAt(*b, In(5), 3).status().code(), StatusCode::kOutOfRange);
  const auto map = a->migrations().Release("job", parcel->moves);
  ASSERT_TRUE(map.ok()) << map.status();
  // Server b does not know of the release yet.
  EXPECT_EQ(PushStep(*b, 0, 3, {}).status().code(), StatusCode::kOutOfRange);
  ASSERT_TRUE(Tell(*b, *map).ok());
  // The replacement of a trainer may request the rows of the previous step.
  for (const uint64_t version : {2, 3}) {
    EXPECT_EQ(*PullAt(*b, In(5), version), *PullAt(*alone, In(5), version)) << version;
  }
  // Both servers permanently reject pushes that the client partitioned before the move.
  EXPECT_EQ(PushStep(*a, 0, 3, In(6)).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(PushStep(*b, 0, 3, In(5)).status().code(), StatusCode::kOutOfRange);
  for (const uint64_t step : {3, 4}) {
    Step(*a, step, In(6), 1);
    Step(*b, step, In(5), 1);
    Step(*alone, step, Ids());
  }
  for (const uint64_t version : {4, 5}) {
    EXPECT_EQ(*PullAt(*b, In(5), version), *PullAt(*alone, In(5), version)) << version;
    EXPECT_EQ(*PullAt(*a, In(6), version), *PullAt(*alone, In(6), version)) << version;
  }
}

// The optimizer changes all rows in each step, and removals change the positions of rows. The
// previous weights must stay with their rows.
TEST_F(StepMovesTest, WeightsBeforeTheStepStayThoseOfTheirRows) {
  const auto a = Start(0, 2), b = Start(1, 2);
  for (const uint64_t step : {0, 1}) {
    Step(*a, step, Ids());
    Step(*b, step, {});
  }
  const auto before = *PullAt(*a, In(6), 1);
  const FreezeRequest order = Before(3, 1, {5});
  Ask(*a, *b, order);
  Step(*a, 2, Ids());
  Step(*b, 2, {});
  const auto now = *PullAt(*a, In(6), 2);
  EXPECT_NE(now, before);
  const auto parcel = a->migrations().Freeze("job", order);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  ASSERT_TRUE(b->migrations().Offer("job", *parcel).ok());
  ASSERT_TRUE(a->migrations().Release("job", parcel->moves).ok());
  EXPECT_EQ(*PullAt(*a, In(6), 2), now);
}

TEST_F(StepMovesTest, WhoHasBegunTheStepIsNotAskedToWait) {
  const auto a = Start(0, 2), b = Start(1, 2);
  Step(*a, 0, Ids());
  for (const uint64_t step : {0, 1}) {
    const auto late = a->migrations().Freeze("job", Before(step, 1, {5}));
    EXPECT_EQ(late.status().code(),
              step == 0 ? StatusCode::kInvalidArgument : StatusCode::kAborted);
  }
  // A target must not accept an offer if the target was not frozen, or if it is at another step.
  const FreezeRequest order = Before(2, 1, {5});
  ASSERT_TRUE(a->migrations().Freeze("job", order).ok());
  Step(*a, 1, Ids());
  const auto parcel = a->migrations().Freeze("job", order);
  ASSERT_EQ(parcel->moves.size(), 1u);
  Step(*b, 0, {});
  EXPECT_EQ(b->migrations().Offer("job", *parcel).code(), StatusCode::kAborted);
  Step(*b, 1, {});
  EXPECT_EQ(b->migrations().Offer("job", *parcel).code(), StatusCode::kAborted);
  EXPECT_TRUE(PushStep(*b, 0, 2, {}).ok());
}

TEST_F(StepMovesTest, AMoveThatComesToNothingIsTakenBackAndItsTargetHearsOfIt) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const auto parcel = OfferBeforeStep1(*a, *b);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  clock_.Advance(seconds(3));
  // The source continues after the end of its lease. The target must not continue before it knows
  // whether the move took place.
  Step(*a, 1, Ids());
  EXPECT_EQ(a->migrations().Release("job", parcel->moves).status().code(), StatusCode::kAborted);
  EXPECT_EQ(PushStep(*b, 0, 1, {}).status().code(), StatusCode::kOutOfRange);
  const auto restarted = Make(1);  // a restart of the target does not change this
  ASSERT_TRUE(restarted->checkpoints().Restore(*b->checkpoints().Take()).ok());
  EXPECT_EQ(PushStep(*restarted, 0, 1, {}).status().code(), StatusCode::kOutOfRange);
  const auto known = a->migrations().Exchange({"job", 0, 0}, /*observer=*/true, {});
  EXPECT_EQ(known->map.owner(5, -1), 0);
  for (Shard* const shard : {b.get(), restarted.get()}) {
    ASSERT_TRUE(Tell(*shard, known->map).ok());
    Step(*shard, 1, {});
    EXPECT_EQ(PullAt(*shard, In(5), 2).status().code(), StatusCode::kOutOfRange);
  }
}

// A restarted source has forgotten the move. Nevertheless the move must be rolled back.
TEST_F(StepMovesTest, ASourceThatWasStartedAgainTakesItBack) {
  const auto a = Start(0, 2), b = Start(1, 2);
  const auto parcel = OfferBeforeStep1(*a, *b);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  const auto again = Make(0);
  ASSERT_TRUE(again->checkpoints().Restore(*a->checkpoints().Take()).ok());
  EXPECT_EQ(again->migrations().Release("job", parcel->moves).status().code(),
            StatusCode::kAborted);
  const auto known = again->migrations().Exchange({"job", 0, 0}, /*observer=*/true, {});
  EXPECT_GT(known->map.epoch(5), parcel->moves[0].epoch);
  ASSERT_TRUE(Tell(*b, known->map).ok());
  Step(*b, 1, {});
  Step(*again, 1, Ids());
}

// A server that waits for rows may offer its own rows only at the step of their move, because
// before that step the rows have other values.
TEST_F(StepMovesTest, AServerThatWaitsForRowsGivesItsOwnAtTheirStep) {
  const auto a = Start(0, 3), b = Start(1, 3);
  const auto parcel = OfferBeforeStep1(*a, *b);
  ASSERT_TRUE(parcel.ok()) << parcel.status();
  const int own = FirstBucket(1, 3);
  const FreezeRequest order = Before(3, 2, {own});
  auto asked = b->migrations().Freeze("job", order);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_TRUE(asked->moves.empty());  // no buckets: step 1 waits for bucket 5, step 2 has not run
  const auto map = a->migrations().Release("job", parcel->moves);
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_TRUE(Tell(*b, *map).ok());
  for (const uint64_t step : {1, 2}) Step(*b, step, {IdIn(own)}, 1);
  asked = b->migrations().Freeze("job", order);
  ASSERT_TRUE(asked.ok()) << asked.status();
  ASSERT_EQ(asked->moves.size(), 1u);
  EXPECT_EQ(asked->version, 3u);
  EXPECT_TRUE(b->migrations().Release("job", asked->moves).ok());
}

TEST_F(StepMovesTest, AnEmptiedServerMakesNoStepsAndComesBackAtThatOfTheOthers) {
  const auto a = Start(0, 2), b = Start(1, 2), alone = Start(0, 1);
  std::vector<int> all(static_cast<size_t>(FirstBucket(1, 2)));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  const auto move = [&](Shard& from, Shard& to, int target, uint64_t step) {
    return [&, target, step](const std::vector<int>& buckets) -> Status {
      TD_ASSIGN_OR_RETURN(const BucketMigration parcel,
                          from.migrations().Freeze("job", Before(step, target, buckets)));
      TD_RETURN_IF_ERROR(to.migrations().Offer("job", parcel));
      TD_ASSIGN_OR_RETURN(const BucketMap map, from.migrations().Release("job", parcel.moves));
      return Tell(to, map);
    };
  };
  Ask(*a, *b, Before(1, 1, all));
  Step(*a, 0, Ids());
  Step(*alone, 0, Ids());
  Step(*b, 0, {});
  // A call that waits at the old owner for the next step must fail with the reason, because the old
  // owner cannot reply.
  StatusOr<PullResult> waiting = Internal("not answered");
  PullQuery query{.caller = {"job", 0, kIncarnation}, .ranges = {}, .at_version = {}};
  query.min_version = 2;
  query.rows = {{"emb", {}}};
  a->Pull(query, clock_.Now() + seconds(60), [&](StatusOr<PullResult> r) { waiting = r; });
  EXPECT_EQ(waiting.status().code(), StatusCode::kInternal);
  ASSERT_TRUE(move(*a, *b, 1, 1)(all).ok());
  EXPECT_EQ(waiting.status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(a->Info().buckets, 0u);
  for (uint64_t step = 1; step < 6; ++step) {
    Step(*b, step, Ids(), 1);
    Step(*alone, step, Ids());
  }
  // Server a is still at step 1. The move back freezes only server b.
  ASSERT_TRUE(b->migrations().Freeze("job", Before(7, 0, {5})).ok());
  Step(*b, 6, Ids(), 1);
  Step(*alone, 6, Ids());
  ASSERT_TRUE(move(*b, *a, 0, 7)({5}).ok());
  EXPECT_EQ(a->Info().version, 7u);
  Step(*a, 7, In(5), 2);
  Step(*alone, 7, Ids());
  for (const uint64_t version : {7, 8}) {
    EXPECT_EQ(*PullAt(*a, In(5), version), *PullAt(*alone, In(5), version)) << version;
  }
}

}  // namespace
}  // namespace tandem::pserver
