// A snapshot has the values of the time at which it began, although pushes change the values during
// the copy.
#include "pserver/shard/snapshotter.h"

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

class SnapshotterTest : public PartsTest {
 protected:
  SnapshotterTest() {
    Start(UpdatePolicy::kASync);
    snapshotter_ = std::make_unique<Snapshotter>(*state_, base_);
  }

  static float First(const ShardSnapshot& snapshot) {
    return Floats(snapshot.slices.at(0).param, 4)[0];
  }
  StatusOr<ShardSnapshot> Finish(Snapshotter::Copy& copy) {
    if (copy.number == 0) return copy.snapshot;
    while (true) {
      TD_ASSIGN_OR_RETURN(const bool whole, snapshotter_->CopyChunk(copy));
      if (whole) return snapshotter_->Finish(copy);
    }
  }

  std::unique_ptr<

      Snapshotter>
      snapshotter_;
};

TEST_F(SnapshotterTest, LaterChangesAreNotInTheSnapshot) {
  Snapshotter::Copy copy = *snapshotter_->Begin(/*delta=*/false, {});
  ApplyOnes();
  const StatusOr<ShardSnapshot> then = Finish(copy);
  ASSERT_TRUE(then.ok()) << then.status();
  EXPECT_EQ(then->version, 0u);
  EXPECT_EQ(First(*then), 1);
  const StatusOr<ShardSnapshot> now = snapshotter_->CopyNow(/*delta=*/false, {});
  EXPECT_EQ(now->version, 1u);
  EXPECT_EQ(First(*now), 0.5f);
  EXPECT_GT(now->order, then->order);
}

TEST_F(SnapshotterTest, ASecondCopyIsMadeAtOnce) {
  Snapshotter::Copy first = *snapshotter_->Begin(/*delta=*/false, {});
  ApplyOnes();
  Snapshotter::Copy second = *snapshotter_->Begin(/*delta=*/false, {});
  EXPECT_EQ(second.number, 0u);
  EXPECT_EQ(First(second.snapshot), 0.5f);
  EXPECT_EQ(First(*Finish(first)), 1) << "the first goes on";
  EXPECT_NE(snapshotter_->Begin(/*delta=*/false, {})->number, 0u);
}

TEST_F(SnapshotterTest, AnAbandonedCopyMakesRoomForTheNext) {
  const Snapshotter::Copy abandoned = *snapshotter_->Begin(/*delta=*/false, {});
  snapshotter_->Abandon(abandoned);
  Snapshotter::Copy next = *snapshotter_->Begin(/*delta=*/false, {});
  ASSERT_NE(next.number, 0u);
  snapshotter_->Abandon(abandoned);  // an abandoned snapshot does not affect the next one
  EXPECT_TRUE(Finish(next).ok());
}

TEST_F(SnapshotterTest, AReplacedStateEndsTheCopy) {
  Snapshotter::Copy copy = *snapshotter_->Begin(/*delta=*/false, {});
  snapshotter_->Reset();
  EXPECT_EQ(Finish(copy).status().code(), StatusCode::kAborted);
}

TEST_F(SnapshotterTest, ASnapshotNamesTheLastSettledChange) {
  options_.log = &log_;
  Start(UpdatePolicy::kASync);
  Snapshotter logged(*state_, base_);
  state_->journal.Note(CompleteRecord{Head(0, 0, 0).caller});
  EXPECT_EQ(logged.CopyNow(/*delta=*/false, {})->log_number, 0u);
  state_->Settle();
  EXPECT_EQ(logged.CopyNow(/*delta=*/false, {})->log_number, 1u);
}

}  // namespace
}  // namespace tandem::pserver
