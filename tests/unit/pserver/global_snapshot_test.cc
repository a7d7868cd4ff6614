// Global snapshots: the part of one server, the checks of its coordinator, and the stored result.
#include <filesystem>

#include "gmock/gmock.h"
#include "pserver/client/moves/global_snapshot.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/shard/global_snapshot_calls.h"
#include "pserver/storage/storage.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

// A fixture with server 0 of two servers.
class CutTest : public ShardFixture {
 protected:
  CutTest() : dir_(testing::TempDir() + "/cut_XXXXXX") { CHECK(mkdtemp(dir_.data()) != nullptr); }
  ~CutTest() override {
    answer_.reset();  // the stored reply may hold a reference to the shard
    shard_.reset();
    std::filesystem::remove_all(dir_);
  }

  // Returns the head of a push. `sent` has, for servers 0 and 1, the number of messages that the
  // trainer has sent; `ended` has the number of these messages that have ended.
  static PushHead Stamped(int trainer, uint64_t sequence, std::vector<uint64_t> sent,
                          std::vector<uint64_t> ended) {
    PushHead head = Head({"job", trainer, kIncarnation}, sequence, sequence);
    head.numbers = {std::move(sent), std::move(ended)};
    return head;
  }
  Status PushOnce(const PushHead& head) { return Push(head, 1).status(); }
  StatusOr<PausedState> Hold(uint64_t cut) {
    return shard_->global_snapshots().Hold("job", cut, seconds(2));
  }
  // Calls Take for snapshot `cut`. *answer_ gets the reply.
  void Take(uint64_t cut, std::vector<SnapshotFrontier> marks,
            std::optional<uint64_t> step = std::nullopt) {
    answer_ = std::make_shared<StatusOr<PendingSnapshot>>(Unimplemented("pending"));
    shard_->global_snapshots().Take(
        "job",
        {.record = {.number = cut}, .marks = std::move(marks), .lease = seconds(2), .step = step},
        [answer = answer_](StatusOr<PendingSnapshot> image) { *answer = std::move(image); });
  }
  std::string Said() const { return std::string(answer_->status().message()); }

  std::string dir_;
  std::shared_ptr<StatusOr<PendingSnapshot>> answer_;
};

TEST_F(CutTest, WaitsForWhatBelongsToItAndForNothingElse) {
  Start(Config(2, UpdatePolicy::kASync));
  ASSERT_TRUE(PushOnce(Stamped(0, 1, {1, 1}, {0, 0})).ok());
  ASSERT_TRUE(PushOnce(Stamped(1, 1, {1, 4}, {0, 0})).ok());
  const auto held = Hold(5);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(held->marks.size(), 2u);
  EXPECT_THAT(held->marks[1].numbers.sent, ElementsAre(1, 4));
  // During the hold, the server rejects new pushes, but recognises a repetition of an accepted
  // push.
  const PushHead second = Stamped(0, 2, {2, 2}, {1, 1}), third = Stamped(0, 3, {3, 3}, {1, 1});
  EXPECT_EQ(PushOnce(second).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(Push(Stamped(0, 1, {1, 1}, {0, 0}), 1)->duplicate);
  // Server 1 already has its half of the second push, so the snapshot must include the other half.
  std::vector<SnapshotFrontier> marks = held->marks;
  marks[0].numbers.sent = {2, 2};
  Take(5, marks);
  EXPECT_EQ(answer_->status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(PushOnce(third).code(), StatusCode::kOutOfRange);
  clock_.Advance(milliseconds(7));
  ASSERT_TRUE(PushOnce(second).ok());
  ASSERT_TRUE(answer_->ok()) << Said();
  EXPECT_EQ((*answer_)->held, milliseconds(7));
  const float then = Values(*PullNow(3))[0];
  EXPECT_TRUE(PushOnce(third).ok());
  EXPECT_NE(Values(*PullNow(4))[0], then);
  const StatusOr<ShardSnapshot> image = (*answer_)->copy();
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->version, 3u);
  EXPECT_EQ(Floats(image->slices[0].param, 1)[0], then);
  EXPECT_EQ(image->marks[0].applied.highest(), 2u);
  EXPECT_THAT(image->marks[0].numbers.sent, ElementsAre(2, 2));
  // The hold is over, because the snapshot was taken.
  EXPECT_EQ(Hold(5).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(CutTest, WhatNeverComesIsNamedAndPushesGoOn) {
  Start(Config(1, UpdatePolicy::kASync));
  ASSERT_TRUE(PushOnce(Stamped(0, 1, {1, 1}, {0, 0})).ok());
  ASSERT_TRUE(Hold(5).ok());
  Take(5, {{0, kIncarnation, false, {{2, 1}, {0, 0}}}});
  clock_.Advance(seconds(1));
  EXPECT_LE(shard_->NextDeadline(), clock_.Now() + seconds(1));
  clock_.Advance(seconds(2));
  shard_->ExpireWaiters();
  EXPECT_EQ(answer_->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Said(), HasSubstr("push 2 of trainer 0 is missing"));
  // The coordinator is lost and its lease ends, so the trainers continue.
  EXPECT_TRUE(PushOnce(Stamped(0, 3, {3, 1}, {0, 0})).ok());
  // A permanently rejected push counts as ended after its trainer has reported the end.
  ASSERT_TRUE(Hold(6).ok());
  Take(6, {{0, kIncarnation, false, {{3, 1}, {1, 1}}}});
  EXPECT_EQ(answer_->status().code(), StatusCode::kUnimplemented);
  clock_.Advance(seconds(3));
  ASSERT_TRUE(PushOnce(Stamped(0, 4, {4, 1}, {3, 1})).ok());
  const auto held = Hold(7);
  ASSERT_TRUE(held.ok()) << held.status();
  Take(7, held->marks);
  EXPECT_TRUE(answer_->ok()) << Said();
}

TEST_F(CutTest, CannotBeWhatItWasMeantToBe) {
  Start(Config(2, UpdatePolicy::kASync));
  ASSERT_TRUE(PushOnce(Stamped(0, 1, {1, 1}, {0, 0})).ok());
  auto held = Hold(5);
  ASSERT_TRUE(held.ok());
  EXPECT_THAT(std::string(Hold(6).status().message()), HasSubstr("snapshot 5 is in progress"));
  // The lease expires, and a push arrives before the request to take the snapshot.
  clock_.Advance(seconds(3));
  ASSERT_TRUE(PushOnce(Stamped(0, 2, {2, 2}, {1, 1})).ok());
  Take(5, held->marks);
  EXPECT_THAT(Said(), HasSubstr("the lease of snapshot 5 has expired"));
  ASSERT_TRUE(Hold(6).ok());
  Take(6, held->marks);
  EXPECT_THAT(Said(), HasSubstr("trainer 0 pushed during the snapshot"));
  // Server 0 learns a newer incarnation from the marks of the other servers. After that, server 0
  // rejects the older incarnation.
  held = Hold(7);
  ASSERT_TRUE(held.ok()) << held.status();
  held->marks[1].incarnation = kIncarnation + 1;
  Take(7, held->marks);
  EXPECT_TRUE(answer_->ok()) << Said();
  EXPECT_EQ(PushOnce(Stamped(1, 1, {1, 1}, {0, 0})).code(), StatusCode::kFailedPrecondition);
  held = Hold(8);
  held->marks[1].incarnation = kIncarnation;
  Take(8, held->marks);
  EXPECT_THAT(Said(), HasSubstr("because trainer 1 was restarted"));
  held = Hold(9);
  ASSERT_TRUE(held.ok()) << held.status();
  shard_->global_snapshots().Release("job", 9);
  EXPECT_TRUE(PushOnce(Stamped(0, 3, {3, 3}, {2, 2})).ok());
}

// The number of a new snapshot must exceed the numbers of all snapshots on the disk. Otherwise a
// newer state could have a lower number than an older state.
TEST_F(CutTest, ANumberThatIsNotAboveThoseOnTheDiskIsRefused) {
  auto storage = *OpenRocksdbStorage(dir_);
  Start(Config(1, UpdatePolicy::kASync));
  ASSERT_TRUE(PushOnce(Stamped(0, 1, {1, 1}, {0, 0})).ok());
  ASSERT_TRUE(storage->Write(*shard_->checkpoints().Take()).ok());
  ASSERT_TRUE(storage->WriteGlobalSnapshot({1000}, *shard_->checkpoints().Take(), {}).ok());
  DurableShard durable({}, storage.get(), clock_, backend_, device_, metrics_);
  ASSERT_TRUE(durable.Recover().ok());
  EXPECT_EQ(durable.shard().Info().last_snapshot, 1000u);
  const auto low = durable.shard().global_snapshots().Hold("job", 1000, seconds(2));
  EXPECT_EQ(low.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(low.status().message()), HasSubstr("[TD4020]"));
  EXPECT_TRUE(durable.shard().global_snapshots().Hold("job", 1001, seconds(2)).ok());
  EXPECT_EQ(durable.shard().Info().last_snapshot, 1001u);
}

TEST_F(CutTest, OfTwoThatChooseOneNumberTheSecondWaitsForAnotherTime) {
  Start(Config(1, UpdatePolicy::kASync));
  ASSERT_TRUE(PushOnce(Stamped(0, 1, {1, 1}, {0, 0})).ok());
  ASSERT_TRUE(shard_->global_snapshots().Hold("job", 5, seconds(2), /*taker=*/7).ok());
  EXPECT_TRUE(shard_->global_snapshots().Hold("job", 5, seconds(2), 7).ok())
      << "the same call once more";
  EXPECT_EQ(shard_->global_snapshots().Hold("job", 5, seconds(2), 8).status().code(),
            StatusCode::kUnavailable);
  shard_->global_snapshots().Release("job", 5, 8);
  EXPECT_EQ(PushOnce(Stamped(0, 2, {2, 2}, {1, 1})).code(), StatusCode::kOutOfRange);
  shard_->global_snapshots().Release("job", 5, 7);
  EXPECT_TRUE(PushOnce(Stamped(0, 2, {2, 2}, {1, 1})).ok());
}

TEST_F(CutTest, WhoCannotTakePartSaysSo) {
  Start(Config(1, UpdatePolicy::kASync));
  ASSERT_TRUE(PushOnce(Head(Rank(0), 1, 0)).ok());
  EXPECT_THAT(std::string(Hold(5).status().message()),
              HasSubstr("trainer 0 does not number its messages"));
}

TEST_F(CutTest, InSyncModeItIsOfOneStep) {
  Start(Config(2, UpdatePolicy::kSync));
  const auto push = [this](int trainer, uint64_t step) {
    return PushOnce(Head(Rank(trainer), step + 1, step));
  };
  ASSERT_TRUE(push(0, 0).ok());
  // Another server has already completed this step.
  auto held = Hold(5);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->step, 0u);
  EXPECT_EQ(push(1, 0).code(), StatusCode::kOutOfRange);
  Take(5, held->marks, 1);
  EXPECT_EQ(answer_->status().code(), StatusCode::kUnimplemented);
  ASSERT_TRUE(push(1, 0).ok());
  ASSERT_TRUE(answer_->ok()) << Said();
  EXPECT_TRUE(push(0, 1).ok());
  const StatusOr<ShardSnapshot> image = (*answer_)->copy();
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->version, 1u);
  // A gradient of the next step is on this server, but in no snapshot.
  held = Hold(6);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->step, 1u);
  EXPECT_EQ(push(1, 1).code(), StatusCode::kOutOfRange);
  Take(6, held->marks, 1);
  ASSERT_TRUE(answer_->ok()) << Said();
  EXPECT_EQ((*answer_)->copy()->version, 1u);
  ASSERT_TRUE(push(1, 1).ok());
  held = Hold(7);
  Take(7, held->marks, 1);
  EXPECT_THAT(Said(), HasSubstr("this server has version 2"));
  held = Hold(8);
  Take(8, held->marks, 3);
  clock_.Advance(seconds(3));
  shard_->ExpireWaiters();
  EXPECT_THAT(Said(), HasSubstr("pushes of step 3 are missing"));
  held = Hold(9);
  Take(9, held->marks);
  EXPECT_THAT(Said(), HasSubstr("must have a step in sync mode"));
}

TEST_F(CutTest, StaysOnTheDiskBesideTheCheckpoint) {
  auto storage = *OpenRocksdbStorage(dir_);
  Start(Config(1, UpdatePolicy::kASync, "adam"));
  const auto image = [&](uint64_t sequence) {
    CHECK(PushOnce(Stamped(0, sequence, {sequence, sequence}, {0, 0})).ok());
    return *shard_->checkpoints().Take();
  };
  for (const uint64_t cut : {1, 2, 3}) {
    const std::vector<uint64_t> removed(cut == 3 ? 1 : 0, 10);
    const auto bytes = storage->WriteGlobalSnapshot(
        {.number = cut * 10, .time_us = 1000 + static_cast<int64_t>(cut)}, image(cut), removed);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(storage->Write(*shard_->checkpoints().Take()).ok());
  }
  std::vector<StoredGlobalSnapshot> stored = *storage->GlobalSnapshots();
  for (StoredGlobalSnapshot& s : stored) {
    EXPECT_GT(std::exchange(s.bytes, 0), 0u);
  }
  EXPECT_THAT(stored,
              ElementsAre(StoredGlobalSnapshot{20, 2, 1002}, StoredGlobalSnapshot{30, 3, 1003}));
  ASSERT_TRUE(storage->Write(image(4)).ok());
  storage.reset();
  storage = *OpenRocksdbStorage(dir_);
  // The start of the storage must have removed the old snapshots.
  EXPECT_EQ((*storage->Read())->version, 4u);
  for (const uint64_t cut : {2, 3}) {
    const auto read = storage->ReadGlobalSnapshot(cut * 10);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->version, cut);
    EXPECT_THAT(read->marks[0].numbers.sent, ElementsAre(cut, cut));
  }
  EXPECT_EQ(storage->ReadGlobalSnapshot(10).status().code(), StatusCode::kNotFound);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
    files += entry.path().filename().string().starts_with("values-");
  }
  EXPECT_EQ(files, 3u);
}

TEST_F(CutTest, AServerThatWentBackStaysThere) {
  auto storage = *OpenRocksdbStorage(dir_);
  for (const bool logged : {false, true}) {
    DurableShard::Options options;
    options.logged = logged;
    options.log.on_work = [] {};
    options.later = [](const std::function<void()>& work) {
      work();
      return OkStatus();
    };
    auto durable =
        std::make_unique<DurableShard>(options, storage.get(), clock_, backend_, device_, metrics_);
    ASSERT_TRUE(durable->Recover().ok());
    const uint64_t cut = logged ? 20 : 10, before = durable->shard().Info().version;
    EXPECT_EQ(before, logged ? 1u : 0u);
    // The functions of the fixture use shard_, so shard_ points to the shard of `durable`.
    shard_.reset(&durable->shard());
    if (!logged) Start(Config(1, UpdatePolicy::kASync));
    const auto push = [&](uint64_t n) { return PushOnce(Stamped(0, n, {n, n}, {n - 1, n - 1})); };
    ASSERT_TRUE(logged || push(1).ok());
    StatusOr<DurableShard::SnapshotPart> file = Internal("not answered");
    const auto held = Hold(cut);
    ASSERT_TRUE(held.ok()) << held.status();
    // The second call repeats the first call and must get the same reply.
    for (int time = 0; time < 2; ++time) {
      durable->TakeGlobalSnapshot(
          "job", {.request = {{.number = cut}, held->marks, 0, seconds(1)}},
          [&file](const StatusOr<DurableShard::SnapshotPart>& f) { file = f; });
      if (logged) durable->log()->Turn();
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(file->version, 1u);
    }
    ASSERT_TRUE(push(2).ok());
    if (logged) durable->log()->Turn();
    EXPECT_EQ(*durable->Restore(cut), 1u);
    EXPECT_EQ(durable->Restore(cut + 1).status().code(), StatusCode::kNotFound);
    shard_.release();
    durable.reset();
    durable =
        std::make_unique<DurableShard>(options, storage.get(), clock_, backend_, device_, metrics_);
    EXPECT_EQ(*durable->Recover(), 1u);
  }
}

TEST(CutterTest, TheNewestThatAllHave) {
  EXPECT_THAT(ps::CommonNumbers({}), ElementsAre());
  EXPECT_THAT(ps::CommonNumbers({{1, 2, 4}, {1, 2, 3}}), ElementsAre(1, 2));
  EXPECT_THAT(ps::CommonNumbers({{1, 2}, {}}), ElementsAre());
  EXPECT_THAT(ps::CommonNumbers({{7, 9}}), ElementsAre(7, 9));
}

TEST(CutterTest, TheNewestUpToATime) {
  const std::vector<ps::FoundGlobalSnapshot> found = {
      {.number = 1, .whole = true, .time_us = 0, .servers = {}},
      {.number = 3, .whole = true, .time_us = 100, .servers = {}},
      {.number = 4, .whole = false, .time_us = 150, .servers = {}},
      {.number = 5, .whole = true, .time_us = 200, .servers = {}}};
  EXPECT_EQ(*ps::NumberAt(found, 100), 3u);
  EXPECT_EQ(*ps::NumberAt(found, 199), 3u);
  EXPECT_EQ(*ps::NumberAt(found, 1000), 5u);
  EXPECT_THAT(std::string(ps::NumberAt(found, 99).status().message()),
              HasSubstr("the oldest snapshot, 3, was taken after"));
  EXPECT_EQ(ps::NumberAt({}, 99).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::pserver
