// The protocol of moves on one server: leases, releases, offers, and the owner of rows that a push
// may assume.
#include "pserver/shard/bucket_migrations.h"

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;

constexpr int kBucket = 5;

class BucketMigrationsTest : public PartsTest {
 protected:
  // Returns the id of one row of the bucket.
  static uint64_t Id() {
    uint64_t id = 0;
    while (RowBucket(id) != kBucket) ++id;
    return id;
  }
  StatusOr<BucketMigration> Freeze(BucketMigrations& migrations, uint64_t step = 0,
                                   bool pushes_held = false) {
    FreezeRequest request{.buckets = {kBucket}, .target = 1, .address = "host:1"};
    request.lease = seconds(2);
    request.step = step;
    return migrations.Freeze("job", request, pushes_held);
  }
};

TEST_F(BucketMigrationsTest, ALeaseThatEndsGivesTheBucketsBack) {
  Start(UpdatePolicy::kASync);
  BucketMigrations migrations(*state_, base_);
  const StatusOr<BucketMigration> frozen = Freeze(migrations);
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  EXPECT_FALSE(state_->Serves(kBucket));
  EXPECT_TRUE(migrations.moving());
  clock_.Advance(seconds(2));
  EXPECT_EQ(migrations.Release("job", frozen->moves).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(state_->Serves(kBucket));
  EXPECT_FALSE(migrations.moving());
  const StatusOr<BucketMigration> again = Freeze(migrations);
  EXPECT_GT(again->moves[0].epoch, frozen->moves[0].epoch) << "an epoch is used once";
}

TEST_F(BucketMigrationsTest, TheOwnerChangesWithTheRelease) {
  Start(UpdatePolicy::kASync);
  BucketMigrations migrations(*state_, base_);
  const StatusOr<BucketMigration> frozen = Freeze(migrations);
  ASSERT_TRUE(migrations.Release("job", frozen->moves).ok());
  EXPECT_TRUE(migrations.Release("job", frozen->moves).ok()) << "the call is repeated";
  EXPECT_EQ(migrations.moves().map.owner(kBucket, 0), 1);
  EXPECT_FALSE(state_->Serves(kBucket));
  EXPECT_FALSE(migrations.moving());
  EXPECT_EQ(migrations.placement().map_version, migrations.moves().map.version());
  EXPECT_EQ(migrations.CheckGeneration(Head(0, 1, 0)).code(), StatusCode::kOutOfRange)
      << "its rows were chosen before";
  PushHead head = Head(0, 1, 0);
  head.generation = 1;
  EXPECT_EQ(migrations.CheckGeneration(head), OkStatus());
}

TEST_F(BucketMigrationsTest, OfferedBucketsAreServedOnceTheyAreReleased) {
  Start(UpdatePolicy::kASync);
  BucketMigrations source(*state_, base_);
  const uint64_t id = Id();
  RowValues row{.variable = "emb", .ids = {id}, .content = {3, 4}};
  ASSERT_TRUE(state_->params->tables().table(0).SetRows(row, 0).ok());
  state_->trainers[0].taken.Take(1);
  const BucketMigration migration = *Freeze(source);
  const BucketMap released = *source.Release("job", migration.moves);

  options_.index = 1;
  Start(UpdatePolicy::kASync);
  for (int b = 0; b < kRowBuckets; ++b) ASSERT_TRUE(state_->params->Drop(b).ok());
  BucketMigrations target(*state_, base_);
  EXPECT_TRUE(target.GaveAllRows());
  ASSERT_EQ(target.CheckTarget(migration), OkStatus());
  ASSERT_EQ(target.Offer("job", migration), OkStatus());
  EXPECT_EQ(target.Offer("job", migration), OkStatus()) << "the call is repeated";
  EXPECT_FALSE(state_->Serves(kBucket));
  const StatusOr<MapAnswer> answer = target.Learn(released);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(state_->Serves(kBucket));
  EXPECT_THAT(answer->buckets, testing::ElementsAre(kBucket));
  EXPECT_EQ(state_->params->tables().table(0).Rows(std::vector<int>{kBucket}, 0)->content,
            (std::vector<float>{3, 4}));
  // The client first sent this push to the source, as push 1 of trainer 0, and the source accepted
  // it.
  PushHead head = Head(0, 9, 0);
  head.origin_server = 1;
  head.origin_sequence = 1;
  EXPECT_TRUE(*target.TakenElsewhere(head));
  head.origin_sequence = 2;
  EXPECT_FALSE(*target.TakenElsewhere(head));
}

TEST_F(BucketMigrationsTest, AnOfferIsForThisServerAlone) {
  Start(UpdatePolicy::kASync);
  BucketMigrations migrations(*state_, base_);
  BucketMigration other = *Freeze(migrations);
  EXPECT_EQ(migrations.CheckTarget(other).code(), StatusCode::kInvalidArgument);
  other.target = 0;
  EXPECT_EQ(migrations.CheckTarget(other).code(), StatusCode::kInvalidArgument) << "its moves";
  other.moves.clear();
  EXPECT_EQ(migrations.CheckTarget(other).code(), StatusCode::kInvalidArgument);
}

TEST_F(BucketMigrationsTest, InSyncModeTheStepIsHeldAndTheLeaseTakesTheBucketsBack) {
  Start(UpdatePolicy::kSync);
  BucketMigrations migrations(*state_, base_);
  EXPECT_EQ(Freeze(migrations, /*step=*/0).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(Freeze(migrations, /*step=*/1)->moves.empty()) << "the step is still to come";
  EXPECT_EQ(migrations.CheckStepHeld(Head(0, 1, 0)), OkStatus());
  state_->version = 1;
  EXPECT_EQ(migrations.CheckStepHeld(Head(0, 1, 1)).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Freeze(migrations, /*step=*/1)->moves.size(), 1u);
  const uint64_t before = migrations.moves().map.epoch(kBucket);
  clock_.Advance(seconds(2));
  migrations.Thaw();
  EXPECT_EQ(migrations.CheckStepHeld(Head(0, 1, 1)), OkStatus());
  EXPECT_GT(migrations.moves().map.epoch(kBucket), before) << "the target learns of it";
  EXPECT_EQ(migrations.moves().map.owner(kBucket, -1), 0);
}

TEST_F(BucketMigrationsTest, NothingMovesDuringAGlobalSnapshotOrFromAReplayableServer) {
  Start(UpdatePolicy::kASync);
  BucketMigrations migrations(*state_, base_);
  EXPECT_EQ(Freeze(migrations, 0, /*pushes_held=*/true).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(migrations.CheckMovable("another").code(), StatusCode::kFailedPrecondition);
  options_.replayable = true;
  EXPECT_EQ(migrations.CheckMovable("job").code(), StatusCode::kFailedPrecondition);
}

TEST_F(BucketMigrationsTest, ARestoreMustNotForgetMoves) {
  Start(UpdatePolicy::kASync);
  BucketMigrations migrations(*state_, base_);
  const MoveState before = migrations.moves();
  const StatusOr<BucketMigration> frozen = Freeze(migrations);
  ASSERT_TRUE(migrations.Release("job", frozen->moves).ok());
  EXPECT_EQ(migrations.CheckRestore(before, {}).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(migrations.moves().generation, 1u);
  EXPECT_EQ(migrations.CheckRestore(migrations.moves(), {}), OkStatus());
  migrations.Restore(migrations.moves(), {});
}

}  // namespace
}  // namespace tandem::pserver
