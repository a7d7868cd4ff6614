// Copy-on-write snapshots of the rows of a table, and of dense slices.
#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "pserver/tables/cow_slice_snapshot.h"
#include "pserver/tables/cow_table_snapshot.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;

class CowTableSnapshotTest : public testing::Test {
 protected:
  static TableSpec Spec() {
    TableSpec spec{.variable = "emb", .shape = {1000, 1}, .init = {}, .rules = {}};
    spec.rules.admit_count = 3;
    spec.bucket_end = kRowBuckets;
    return spec;
  }
  void SetRow(uint64_t id, float value, uint32_t last = 0) {
    const uint32_t at = *rows_.store().FindOrAdd(id);
    rows_.store().Row(at)[0] = value;
    rows_.store().SetUse(at, {.show = 1, .click = 0, .last = last});
  }
  void BeginAt(uint32_t version, uint32_t age_max = UINT32_MAX) {
    CowTableSnapshot::Options options{.version = version, .age_max = age_max, .buckets = {}};
    options.buckets.set();
    snapshot_.Begin(options, {});
  }
  void Change(uint64_t id, float value) {
    snapshot_.BeforeChange({&id, 1});
    SetRow(id, value, 5);
  }
  // Returns the rows of the snapshot as (id, value), and the waiting rows as (id, -1).
  std::vector<std::pair<uint64_t, float>> Finished() {
    for (int b = 0; b < kRowBuckets; ++b) snapshot_.CopyBucket(b);
    const StatusOr<TableSnapshot> snapshot = snapshot_.Finish();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    std::vector<std::pair<uint64_t, float>> all;
    for (const auto& [bucket, rows] : snapshot->buckets) {
      EXPECT_EQ(rows.variable, "emb");
      for (size_t i = 0; i < rows.ids.size(); ++i) all.emplace_back(rows.ids[i], rows.content[i]);
      for (const WaitingRow& row : rows.waiting) all.emplace_back(row.id, -1.0f);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  TableRowSet rows_{Spec(), /*width=*/1, /*brief_width=*/0};
  CowTableSnapshot snapshot_{rows_};
};

TEST_F(CowTableSnapshotTest, HasEachRowAsOfItsBegin) {
  SetRow(1, 10);
  SetRow(2, 20);
  SetRow(3, 30);
  BeginAt(0);
  Change(1, 11);
  Change(1, 12);  // no effect: only the first change saves the old value
  snapshot_.CopyBucket(RowBucket(2));
  Change(2, 21);
  Change(4, 40);  // a row that did not exist when the snapshot began
  EXPECT_THAT(Finished(), ElementsAre(std::pair(1, 10), std::pair(2, 20), std::pair(3, 30)));
}

TEST_F(CowTableSnapshotTest, ARowThatWaitedWaitsThoughItIsAdmittedSince) {
  EXPECT_FALSE(rows_.admission().Admit(7, 0));
  EXPECT_FALSE(rows_.admission().Admit(7, 1));
  BeginAt(2);
  const uint64_t id = 7;
  snapshot_.BeforeChange({&id, 1});
  EXPECT_TRUE(rows_.admission().Admit(7, 2));
  SetRow(7, 70);
  EXPECT_THAT(Finished(), ElementsAre(std::pair(7, -1)));
}

TEST_F(CowTableSnapshotTest, ADroppedBucketIsCopiedBefore) {
  SetRow(1, 10);
  BeginAt(0);
  snapshot_.BeforeChange(RowBucket(1));
  ASSERT_TRUE(rows_.DropBucket(RowBucket(1)).ok());
  EXPECT_EQ(rows_.size(), 0u);
  EXPECT_THAT(Finished(), ElementsAre(std::pair(1, 10)));
}

TEST_F(CowTableSnapshotTest, OldRowsAreOmitted) {
  SetRow(1, 10, /*last=*/3);
  SetRow(2, 20, /*last=*/8);
  BeginAt(/*version=*/9, /*age_max=*/4);
  EXPECT_THAT(Finished(), ElementsAre(std::pair(2, 20)));
}

TEST_F(CowTableSnapshotTest, AnAbandonedSnapshotSavesNothing) {
  SetRow(1, 10);
  BeginAt(0);
  snapshot_.Abandon();
  Change(1, 11);
  BeginAt(1);
  EXPECT_THAT(Finished(), ElementsAre(std::pair(1, 11)));
}

class CowSliceSnapshotTest : public testing::Test {
 protected:
  StatusOr<SliceSnapshot> Copy(int slice) {
    ++copies_;
    if (slice == fails_) return ResourceExhausted("no memory");
    SliceSnapshot snapshot;
    snapshot.param = std::make_shared<std::byte>(static_cast<std::byte>(values_[slice]));
    return snapshot;
  }
  static int Value(const SliceSnapshot& snapshot) { return static_cast<int>(*snapshot.param); }

  std::vector<int> values_ = {1, 2, 3};
  int copies_ = 0;
  int fails_ = -1;
  CowSliceSnapshot snapshot_{[this](int slice) { return Copy(slice); }};
};

TEST_F(CowSliceSnapshotTest, ASliceIsCopiedOnce) {
  ASSERT_TRUE(snapshot_.CopySlice(0).ok());
  EXPECT_EQ(copies_, 0) << "no snapshot in progress";
  snapshot_.Begin(3);
  ASSERT_TRUE(snapshot_.CopySlice(1).ok());
  values_[1] = 20;
  ASSERT_TRUE(snapshot_.CopySlice(1).ok());
  ASSERT_TRUE(snapshot_.CopyAll().ok());
  EXPECT_EQ(copies_, 3);
  const auto copies = snapshot_.Finish();
  ASSERT_TRUE(copies.ok()) << copies.status();
  ASSERT_EQ(copies->size(), 3u);
  EXPECT_EQ(Value((*copies)[1]), 2);
  EXPECT_EQ(Value((*copies)[2]), 3);
}

TEST_F(CowSliceSnapshotTest, ALaterSliceIsNotPartOfIt) {
  snapshot_.Begin(2);
  ASSERT_TRUE(snapshot_.CopyAll().ok());
  ASSERT_TRUE(snapshot_.CopySlice(2).ok());
  EXPECT_EQ(copies_, 2);
  EXPECT_EQ(snapshot_.Finish()->size(), 2u);
}

TEST_F(CowSliceSnapshotTest, AFailedCopyMayBeRepeated) {
  snapshot_.Begin(2);
  fails_ = 1;
  EXPECT_EQ(snapshot_.CopyAll().code(), StatusCode::kResourceExhausted);
  fails_ = -1;
  EXPECT_TRUE(snapshot_.CopyAll().ok());
  EXPECT_TRUE(snapshot_.Finish().ok());
}

TEST_F(CowSliceSnapshotTest, AnAbandonedSnapshotFails) {
  snapshot_.Begin(2);
  snapshot_.Abandon();
  ASSERT_TRUE(snapshot_.CopyAll().ok());
  EXPECT_EQ(copies_, 0);
  EXPECT_EQ(snapshot_.Finish().status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tandem::pserver
