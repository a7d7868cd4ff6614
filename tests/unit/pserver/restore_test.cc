// Restores of a server: what a crash in the middle leaves, and which snapshots stay afterwards.
#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "pserver/rocksdb/snapshot_lineage.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/shard/global_snapshot_calls.h"
#include "pserver/storage/storage.h"
#include "tests/support/failing_storage.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RestoreTest : public ShardFixture {
 protected:
  RestoreTest() : dir_(testing::TempDir() + "/restore_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~RestoreTest() override {
    Kill();
    std::filesystem::remove_all(dir_);
  }

  // Starts a server on the directory. Returns the version that it recovers.
  uint64_t Start(bool logged = true, bool write_fails = false) {
    disk_ = *OpenRocksdbStorage(dir_, nullptr, {.log_keep_bytes = 1 << 20});
    storage_ = std::make_unique<FailingStorage>(*disk_);
    storage_->write_fails = write_fails;
    DurableShard::Options options;
    options.logged = logged;
    options.keep = {.last = kept_};
    options.log.on_work = [] {};
    options.later = [](const std::function<void()>& work) {
      work();
      return OkStatus();
    };
    options.aside = [this](const std::function<void()>& work) {
      if (const auto before = std::exchange(before_aside_, nullptr)) before();
      work();
    };
    options.on_restore_begin = [] { return OkStatus(); };
    options.on_restore_end = [this](DurableShard::RestoreEnd end) {
      ends_.push_back(end);
      return end_status_;
    };
    durable_ = std::make_unique<DurableShard>(options, storage_.get(), clock_, backend_, device_,
                                              metrics_);
    const auto version = durable_->Recover();
    EXPECT_TRUE(version.ok()) << version.status();
    shard_.reset(&durable_->shard());  // for the functions of the fixture
    return version.ok() ? *version : 0;
  }
  void Configure(UpdatePolicy mode) { ShardFixture::Start(Config(1, mode)); }
  // Ends the server as a crash does, and leaves its directory.
  void Kill() {
    shard_.release();
    durable_.reset();
    storage_.reset();
    disk_.reset();
  }
  void EmptyDirectory() {
    std::filesystem::remove_all(dir_);
    ASSERT_TRUE(std::filesystem::create_directory(dir_));
  }
  Status PushOnce(uint64_t n, float value = 1) {
    PushHead head = Head(Rank(0), n, n - 1);
    head.numbers = {{n}, {n - 1}};
    const Status status = Push(head, value).status();
    if (durable_->log() != nullptr) durable_->log()->Turn();
    return status;
  }
  float Value() { return Floats(durable_->shard().checkpoints().Take()->slices[0].param, 1)[0]; }

  // Takes snapshot `number`. `whole`: the snapshots that all servers have.
  Status Take(uint64_t number, std::vector<uint64_t> whole = {}, uint64_t complete = 0,
              uint64_t taker = 0) {
    const auto held = shard_->global_snapshots().Hold("job", number, seconds(2), taker);
    if (!held.ok()) return held.status();
    const SnapshotRecord record = {
        .number = number, .time_us = 0, .complete = complete, .whole = std::move(whole)};
    GlobalSnapshotOrder order{.request = {record, held->marks, 0, seconds(1), taker}};
    order.request.step = held->step;
    return Order(order);
  }
  Status Rebuild(uint64_t number, uint64_t step, std::vector<uint64_t> whole = {},
                 uint64_t taker = 9) {
    const SnapshotRecord record = {.number = number,
                                   .time_us = 0,
                                   .complete = whole.empty() ? 0 : whole.back(),
                                   .whole = whole};
    return Order({.request = {.record = record, .taker = taker}, .rebuilt = step});
  }
  Status Order(const GlobalSnapshotOrder& order) {
    Status status = Internal("not answered");
    durable_->TakeGlobalSnapshot(
        "job", order,
        [&status](const StatusOr<DurableShard::SnapshotPart>& part) { status = part.status(); });
    if (durable_->log() != nullptr) durable_->log()->Turn();
    return status;
  }
  // Returns the numbers of the stored snapshots; those of abandoned ones are negative.
  std::vector<int64_t> Stored() {
    std::vector<int64_t> numbers;
    const std::vector<StoredGlobalSnapshot> stored = *disk_->GlobalSnapshots();
    for (const StoredGlobalSnapshot& s : stored) {
      const auto number = static_cast<int64_t>(s.number);
      numbers.push_back(s.abandoned ? -number : number);
    }
    return numbers;
  }

  std::string dir_;
  int kept_ = 2;                                // snapshots that the rules keep
  std::vector<DurableShard::RestoreEnd> ends_;  // the ends of restores
  std::function<void()> before_aside_;  // called once before the next checkpoint or snapshot
  Status end_status_;                   // result of on_restore_end
  std::unique_ptr<Storage> disk_;
  std::unique_ptr<FailingStorage> storage_;
  std::unique_ptr<DurableShard> durable_;
};

TEST_F(RestoreTest, ARestoreThatCannotBeRecordedChangesNothing) {
  Start();
  Configure(UpdatePolicy::kASync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(10).ok());
  ASSERT_TRUE(PushOnce(2).ok());
  const float before = Value();
  storage_->begin_fails = true;
  EXPECT_EQ(durable_->Restore(10).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(durable_->shard().Info().version, 2u);
  EXPECT_EQ(Value(), before);
  ASSERT_TRUE(PushOnce(3).ok());
  const float after = Value();
  Kill();
  EXPECT_EQ(Start(), 3u);
  EXPECT_EQ(Value(), after);
  EXPECT_THAT(Stored(), ElementsAre(10));
}

// The server is killed between the record of the restore and the checkpoint of the restored state.
TEST_F(RestoreTest, ACrashLeavesTheRestoredStateWithItsOwnLog) {
  for (const uint64_t restored : {10, 0}) {
    Start();
    Configure(UpdatePolicy::kASync);
    ASSERT_TRUE(PushOnce(1).ok());
    ASSERT_TRUE(Take(10).ok());
    ASSERT_TRUE(durable_->Save().ok());
    const float old = Value();
    for (uint64_t n = 2; n < 6; ++n) ASSERT_TRUE(PushOnce(n).ok());
    storage_->write_fails = true;
    EXPECT_EQ(durable_->Restore(restored).status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(Value(), old);
    EXPECT_EQ(durable_->shard().Info().version, 1u);
    Kill();
    // Nothing was pushed: the restored state.
    EXPECT_EQ(Start(), 1u);
    EXPECT_EQ(Value(), old);
    EXPECT_FALSE(disk_->UnfinishedRestore()->has_value());
    for (uint64_t n = 2; n < 6; ++n) ASSERT_TRUE(PushOnce(n).ok());
    // The restored state is served, and gets pushes.
    storage_->write_fails = true;
    EXPECT_FALSE(durable_->Restore(restored).ok());
    ASSERT_TRUE(PushOnce(2, 7).ok());
    ASSERT_TRUE(PushOnce(3, 7).ok());
    const float after = Value();
    EXPECT_NE(after, old);
    Kill();
    for (int starts = 0; starts < 2; ++starts) {
      EXPECT_EQ(Start(), 3u) << starts;
      EXPECT_EQ(Value(), after) << starts;
      EXPECT_FALSE(disk_->UnfinishedRestore()->has_value());
      if (starts == 0) {
        ASSERT_TRUE(durable_->Save().ok());
      }
      Kill();
    }
    EmptyDirectory();
  }
}

// A trainer of a stream that pushed after the restored state must not continue, also if the server
// was killed during the restore.
TEST_F(RestoreTest, ACrashForgetsNoTrainerThatPushedMore) {
  Start();
  Configure(UpdatePolicy::kASync);
  const auto once = [this](uint64_t n) {
    PushHead head = Head(Rank(0), n, n - 1);
    head.numbers = {{n}, {n - 1}};
    head.once = true;
    const Status status = Push(head, 1).status();
    durable_->log()->Turn();
    return status;
  };
  ASSERT_TRUE(once(1).ok());
  ASSERT_TRUE(Take(10).ok());
  ASSERT_TRUE(once(2).ok() && once(3).ok());
  storage_->write_fails = true;
  EXPECT_FALSE(durable_->Restore(10).ok());
  Kill();
  EXPECT_EQ(Start(), 1u);
  const Status refused = once(4);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("[TD4015]"));
}

TEST_F(RestoreTest, TheCheckpointBeforeAnUnfinishedRestoreIsNotOpened) {
  Start();
  Configure(UpdatePolicy::kASync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(10).ok());
  ASSERT_TRUE(PushOnce(2).ok());
  ASSERT_TRUE(durable_->Save().ok());
  EXPECT_TRUE(disk_->files()->OpenCheckpoint().ok());
  storage_->write_fails = true;
  EXPECT_FALSE(durable_->Restore(10).ok());
  EXPECT_EQ(disk_->files()->OpenCheckpoint().status().code(), StatusCode::kFailedPrecondition);
  Kill();
  // The checkpoint of the start fails too.
  EXPECT_EQ(Start(/*logged=*/true, /*write_fails=*/true), 1u);
  EXPECT_EQ(disk_->files()->OpenCheckpoint().status().code(), StatusCode::kFailedPrecondition);
  storage_->write_fails = false;
  ASSERT_TRUE(durable_->Save().ok());
  EXPECT_TRUE(disk_->files()->OpenCheckpoint().ok());
}

TEST_F(RestoreTest, ALaterCheckpointEndsARestore) {
  using enum DurableShard::RestoreEnd;
  Start();
  Configure(UpdatePolicy::kASync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(10).ok());
  ASSERT_TRUE(PushOnce(2).ok());
  ASSERT_TRUE(durable_->Save().ok());
  EXPECT_THAT(ends_, IsEmpty());
  storage_->write_fails = true;
  EXPECT_FALSE(durable_->Restore(10).ok());
  EXPECT_FALSE(durable_->Save().ok());
  EXPECT_FALSE(durable_->Restore(99).ok());
  EXPECT_THAT(ends_, ElementsAre(kNotStored, kUnchanged));
  storage_->write_fails = false;
  // The term of the restored state cannot be stored, so the next checkpoint retries.
  end_status_ = ResourceExhausted("the disk is full");
  ASSERT_TRUE(durable_->Save().ok());
  end_status_ = OkStatus();
  ASSERT_TRUE(durable_->Save().ok());
  ASSERT_TRUE(durable_->Save().ok());
  EXPECT_THAT(ends_, ElementsAre(kNotStored, kUnchanged, kStored, kStored));
  EXPECT_EQ(*durable_->Restore(10), 1u);
  ASSERT_TRUE(durable_->Save().ok());
  EXPECT_THAT(ends_, ElementsAre(kNotStored, kUnchanged, kStored, kStored, kStored));
}

TEST_F(RestoreTest, TheSnapshotOfAnUnfinishedRestoreStays) {
  Start();
  Configure(UpdatePolicy::kASync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(10).ok());
  const ShardSnapshot image = *durable_->shard().checkpoints().Take();
  storage_->write_fails = true;
  EXPECT_FALSE(durable_->Restore(10).ok());
  const std::vector<uint64_t> removed = {10};
  ASSERT_TRUE(disk_->WriteGlobalSnapshot({.number = 11}, image, removed).ok());
  EXPECT_THAT(Stored(), ElementsAre(10, 11));
  storage_->write_fails = false;
  ASSERT_TRUE(durable_->Save().ok());
  ASSERT_TRUE(disk_->WriteGlobalSnapshot({.number = 12}, image, removed).ok());
  EXPECT_THAT(Stored(), ElementsAre(11, 12));
}

TEST_F(RestoreTest, AbandonedSnapshotsTakeNoPlaceInTheRules) {
  kept_ = 3;
  for (const bool logged : {true, false}) {
    Start(logged);
    Configure(UpdatePolicy::kASync);
    for (uint64_t n = 1; n <= 4; ++n) {
      ASSERT_TRUE(PushOnce(n).ok());
      // No server says which snapshots all have, so nothing but partial ones could be removed.
      ASSERT_TRUE(
          disk_->WriteGlobalSnapshot({.number = n}, *durable_->shard().checkpoints().Take(), {})
              .ok());
    }
    EXPECT_THAT(Stored(), ElementsAre(1, 2, 3, 4));
    ASSERT_EQ(*durable_->Restore(2), 2u);
    EXPECT_THAT(Stored(), ElementsAre(1, 2, -3, -4));
    Kill();
    Start(logged);
    EXPECT_THAT(Stored(), ElementsAre(1, 2, -3, -4));
    // The rules keep the new one and the predecessors, although the abandoned ones are newer.
    ASSERT_TRUE(PushOnce(3).ok());
    ASSERT_TRUE(Take(5, {1, 2, 3, 4}, /*complete=*/2).ok());
    EXPECT_THAT(Stored(), ElementsAre(1, 2, -3, -4, 5));
    // The user changes their mind: 4 and its predecessors are the history again.
    ASSERT_EQ(*durable_->Restore(4), 4u);
    EXPECT_THAT(Stored(), ElementsAre(1, 2, 3, 4, -5));
    ASSERT_TRUE(PushOnce(5).ok());
    ASSERT_TRUE(Take(6, {1, 2, 3, 4, 5}, /*complete=*/4).ok());
    EXPECT_THAT(Stored(), ElementsAre(3, 4, -5, 6));
    // Once a newer snapshot is complete, the abandoned one goes.
    ASSERT_TRUE(Take(7, {3, 4, 5, 6}, /*complete=*/6).ok());
    EXPECT_THAT(Stored(), ElementsAre(4, 6, 7));
    Kill();
    EmptyDirectory();
  }
}

TEST_F(RestoreTest, TheNewestPartialSnapshotsStay) {
  Start();
  Configure(UpdatePolicy::kASync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(1).ok());
  // Another server never gets its part of the snapshots after 1.
  for (uint64_t n = 2; n <= 6; ++n) ASSERT_TRUE(Take(n, {1}, 1).ok());
  EXPECT_THAT(Stored(), ElementsAre(1, 3, 4, 5, 6));
  // They go when a newer snapshot is complete.
  ASSERT_TRUE(Take(7, {1, 6}, 6).ok());
  EXPECT_THAT(Stored(), ElementsAre(6, 7));
}

// Another server is replaced by one that has no snapshots, so no snapshot is complete.
TEST_F(RestoreTest, ASnapshotAfterAPromotionRemovesNoRecentOne) {
  kept_ = 4;
  Start();
  Configure(UpdatePolicy::kSync);
  std::vector<uint64_t> whole;
  for (uint64_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(PushOnce(n).ok());
    ASSERT_TRUE(Take(n, whole, whole.empty() ? 0 : whole.back()).ok());
    whole.push_back(n);
  }
  ASSERT_TRUE(Take(4).ok());
  EXPECT_THAT(Stored(), ElementsAre(1, 2, 3, 4));
  // A rebuilt snapshot may need each of them as its base. Its own failed attempts are bounded.
  for (uint64_t n = 5; n <= 9; ++n) ASSERT_TRUE(Rebuild(n, 2).ok());
  EXPECT_THAT(Stored(), ElementsAre(1, 2, 3, 4, -6, -7, -8, -9));
}

TEST_F(RestoreTest, RebuiltSnapshotsAreRemoved) {
  Start();
  Configure(UpdatePolicy::kSync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(1).ok());
  for (uint64_t n = 2; n <= 6; ++n) ASSERT_TRUE(PushOnce(n).ok());
  ASSERT_TRUE(Take(2, {1}, 1).ok());
  ASSERT_TRUE(Rebuild(3, 4, {1, 2}).ok());
  // It was not restored, so it is no predecessor of the present state.
  EXPECT_THAT(Stored(), ElementsAre(1, 2, -3));
  ASSERT_TRUE(Rebuild(4, 5, {1, 2, 3}).ok());
  EXPECT_THAT(Stored(), ElementsAre(1, 2, -4));
  ASSERT_EQ(*durable_->Restore(4), 5u);
  EXPECT_THAT(Stored(), ElementsAre(1, -2, 4));
  // The restored one counts like any other.
  ASSERT_TRUE(Take(5, {1, 2, 4}, /*complete=*/4).ok());
  EXPECT_THAT(Stored(), ElementsAre(4, 5));
  // A coordinator of an earlier version sends no facts: nothing is removed.
  ASSERT_TRUE(Rebuild(6, 5, {}, /*taker=*/0).ok());
  EXPECT_THAT(Stored(), ElementsAre(4, 5, -6));
}

TEST_F(RestoreTest, ASnapshotOfAReplacedStateIsNotStored) {
  Start();
  Configure(UpdatePolicy::kASync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(1).ok());
  ASSERT_TRUE(PushOnce(2).ok());
  // Another state is restored after the values of snapshot 2 were copied.
  before_aside_ = [this] { EXPECT_EQ(*durable_->Restore(1), 1u); };
  const Status aborted = Take(2);
  EXPECT_EQ(aborted.code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(aborted.message()), HasSubstr("snapshot 2 was not stored"));
  EXPECT_THAT(Stored(), ElementsAre(1));
  // A newer checkpoint has the same history.
  before_aside_ = [this] { EXPECT_TRUE(durable_->Save().ok()); };
  ASSERT_TRUE(PushOnce(2).ok());
  const Status taken = Take(3);
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_THAT(Stored(), ElementsAre(1, 3));
}

TEST_F(RestoreTest, OneNumberBelongsToOneTaker) {
  Start();
  Configure(UpdatePolicy::kSync);
  ASSERT_TRUE(PushOnce(1).ok());
  ASSERT_TRUE(Take(1, {}, 0, /*taker=*/7).ok());
  ASSERT_TRUE(PushOnce(2).ok());
  // Both commands chose number 2. On this server the order to take the snapshot was first.
  ASSERT_TRUE(Take(2, {1}, 1, /*taker=*/7).ok());
  const Status second = Rebuild(2, 1, {1}, /*taker=*/8);
  EXPECT_EQ(second.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another command takes snapshot 2"));
  EXPECT_EQ(disk_->ReadGlobalSnapshot(2)->version, 2u);
  // A repeated order of the first gets its result again.
  EXPECT_TRUE(Order({.request = {.record = {.number = 2}, .taker = 7}}).ok());
  // On this server the order to rebuild a state was first.
  const auto held = shard_->global_snapshots().Hold("job", 4, seconds(2), 7);
  ASSERT_TRUE(Rebuild(5, 1, {1, 2}, 8).ok());
  EXPECT_EQ(Order({.request = {{.number = 5}, held->marks, 0, seconds(1), 7}}).code(),
            StatusCode::kUnavailable);
  // After a restart the server does not know the taker, but the number.
  Kill();
  Start();
  EXPECT_EQ(Rebuild(5, 2, {1, 2}, 9).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(disk_->ReadGlobalSnapshot(5)->version, 1u);
}

TEST(SnapshotLineageTest, PredecessorsAreTheHeadAndItsAncestors) {
  SnapshotLineage lineage;
  for (const auto& [number, parent] :
       std::map<uint64_t, uint64_t>{{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {6, 9}}) {
    lineage.Add(number, parent);
  }
  EXPECT_THAT(lineage.Predecessors(5), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(lineage.Predecessors(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(lineage.Predecessors(6), ElementsAre(6)) << "a parent is lower";
  EXPECT_EQ(lineage.Predecessors(0).size(), 6u);
  EXPECT_EQ(lineage.Predecessors(77).size(), 6u);
  EXPECT_EQ(lineage.Remaining(5, {5, 4}), 2u);
  EXPECT_EQ(lineage.Remaining(2, {1, 2}), 0u);
  lineage.Remove({2, 4});
  EXPECT_THAT(lineage.Predecessors(5), ElementsAre(1, 5));
  EXPECT_THAT(lineage.Predecessors(3), ElementsAre(1, 3));
  EXPECT_EQ(lineage.newest(), 6u);
  EXPECT_THAT(SnapshotLineage().Predecessors(1), IsEmpty());
}

}  // namespace
}  // namespace tandem::pserver
