// Tests the state of a standby whose disk is full: it keeps what it has, and lags.
#include "pserver/follower_state.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"
#include "tests/support/failing_storage.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

// The parts of a standby on one thread.
class TestParts final : public FollowerParts {
 public:
  TestParts(Storage& storage, const Clock& clock, const exec::Backend& backend, Device& device,
            Metrics& metrics)
      : storage_(storage) {
    DurableShard::Options options;
    options.logged = options.logs_snapshots = true;
    options.log.on_work = [this] {
      if (on_append) on_append();
    };
    options.later = [this](std::function<void()> work) -> Status {
      if (busy) return ResourceExhausted("the saver is busy");
      saves.push_back(std::move(work));
      return OkStatus();
    };
    durable_ = std::make_unique<DurableShard>(options, &storage, clock, backend, device, metrics);
  }
  std::function<void()> on_append;  // called after each entry that the log receives
  bool busy = false;                // whether no further save can wait
  std::vector<std::function<void()>> saves;
  // Runs the saves that wait, as the thread of `later`.
  void Save() {
    for (const auto& save : std::exchange(saves, {})) save();
  }

  DurableShard& durable() override { return *durable_; }
  Storage* storage() override { return &storage_; }
  StatusOr<uint64_t> Recover() override { return durable_->Recover(); }
  Status MakeEmptyShard() override { return Internal("the test has one shard"); }
  Status AwaitLogged() override {
    durable_->log()->Turn();
    Status status = Internal("not written");
    durable_->log()->WhenLogged([&status](const Status& written) { status = written; });
    if (status.code() != StatusCode::kInternal) return status;
    durable_->log()->Turn();  // the callback waits for the next write
    return status;
  }
  Status BeginReplication(LogTerm, std::optional<LogSource::Predecessor>) override {
    return OkStatus();
  }
  Status ResumeReplication() override { return OkStatus(); }

 private:
  Storage& storage_;
  std::unique_ptr<DurableShard> durable_;
};

class FollowerStateTest : public ShardFixture {
 protected:
  FollowerStateTest() : dir_(testing::TempDir() + "/follower_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
    disk_ = *OpenRocksdbStorage(dir_);
    storage_ = std::make_unique<FailingStorage>(*disk_);
    // The primary.
    Make({.log = &log_});
    Start(Config(1, UpdatePolicy::kASync));
    ShardSnapshot image = *shard_->checkpoints().Take();
    log_.entries.clear();
    CHECK(storage_->Write(image).ok());
    CHECK(storage_->files()->SetTerm(kTerm).ok());
    for (uint64_t n = 1; n <= 6; ++n) CHECK(Push(Head(Rank(0), n, n - 1), 1).ok());
    first_ = image.log_number + 1;
    parts_ = std::make_unique<TestParts>(*storage_, clock_, backend_, device_, metrics_);
    state_ = std::make_unique<FollowerState>(*parts_, "job");
    CHECK(state_->Recover().ok());
    EXPECT_TRUE(state_->position().has_state);
  }
  ~FollowerStateTest() override {
    state_.reset();
    parts_.reset();
    storage_.reset();
    disk_.reset();
    std::filesystem::remove_all(dir_);
  }

  static constexpr LogTerm kTerm = {.history = 7, .number = 2, .start = 0};

  // Returns the entries `begin` to `end` - 1 after the checkpoint, from 0.
  std::vector<LogEntry> Entries(size_t begin, size_t end) const {
    return {log_.entries.begin() + static_cast<ptrdiff_t>(begin),
            log_.entries.begin() + static_cast<ptrdiff_t>(end)};
  }
  // Inserts snapshot `record` before the entry `at`, from 0.
  void InsertSnapshot(size_t at, const SnapshotRecord& record) {
    log_.entries.insert(log_.entries.begin() + static_cast<ptrdiff_t>(at), {0, record});
    for (size_t i = 0; i < log_.entries.size(); ++i) log_.entries[i].number = first_ + i;
  }
  std::vector<uint64_t> Snapshots() const {
    std::vector<uint64_t> numbers;
    const std::vector<StoredGlobalSnapshot> stored = *disk_->GlobalSnapshots();
    for (const StoredGlobalSnapshot& s : stored) numbers.push_back(s.number);
    return numbers;
  }
  // Installs the checkpoint of `from` in `to`.
  static void Install(Storage& from, Storage& to) {
    const OpenedCheckpoint opened = *from.files()->OpenCheckpoint();
    const std::string path = to.files()->NewValuesFile();
    std::filesystem::copy_file(absl::StrFormat("/proc/self/fd/%d", opened.values.get()), path);
    ASSERT_TRUE(to.files()->InstallCheckpoint(opened.record, path, kTerm).ok());
  }
  // Starts the standby again on its directory.
  void Restart() {
    state_.reset();
    parts_ = std::make_unique<TestParts>(*storage_, clock_, backend_, device_, metrics_);
    state_ = std::make_unique<FollowerState>(*parts_, "job");
    ASSERT_TRUE(state_->Recover().ok());
  }
  uint64_t Stored() const { return state_->position().last + 1 - first_; }
  float Value(Shard& shard) const {
    const ShardSnapshot image = *shard.checkpoints().Take();
    return reinterpret_cast<const float*>(image.slices[0].param.get())[0];
  }

  std::string dir_;
  LogInMemory log_;
  uint64_t first_ = 0;
  std::unique_ptr<Storage> disk_;
  std::unique_ptr<FailingStorage> storage_;
  std::unique_ptr<TestParts> parts_;
  std::unique_ptr<FollowerState> state_;
};

TEST_F(FollowerStateTest, AFullDiskDelaysAStandby) {
  ASSERT_TRUE(state_->Append(Entries(0, 2)).ok());
  storage_->append_fails = true;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Status full = state_->Append(Entries(2, 4));
    EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(full.message()), HasSubstr("the standby lags"));
    EXPECT_TRUE(state_->position().has_state) << "the state was dropped";
    EXPECT_EQ(Stored(), 2u);
  }
  EXPECT_EQ(state_->Promote(9, 0, Replication::kQuorum).code(), StatusCode::kResourceExhausted);
  storage_->append_fails = false;
  // The primary sends the same entries again, with later ones.
  ASSERT_TRUE(state_->Append(Entries(2, 6)).ok());
  EXPECT_EQ(Stored(), 6u);
  EXPECT_EQ(Value(parts_->durable().shard()), Value(*shard_));
  EXPECT_TRUE(state_->Promote(9, 0, Replication::kQuorum).ok());
}

// The entries that wait for the disk belong to the old term. The state before them also belongs to
// the new term, so the standby keeps the state.
TEST_F(FollowerStateTest, AFullDiskDoesNotCostTheStateAtTheNextTerm) {
  ASSERT_TRUE(state_->Append(Entries(0, 2)).ok());
  storage_->append_fails = true;
  EXPECT_FALSE(state_->Append(Entries(2, 4)).ok());
  const LogTerm next = {.history = 7, .number = 3, .start = 0};
  ASSERT_TRUE(state_->SetTerm(next).ok());
  EXPECT_TRUE(state_->position().has_state) << "the state was dropped";
  EXPECT_EQ(state_->position().term, next);
  EXPECT_EQ(Stored(), 2u);
  EXPECT_EQ(state_->Append(Entries(2, 3)).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Stored(), 2u);
  storage_->append_fails = false;
  ASSERT_TRUE(state_->Append(Entries(2, 3)).ok());
  EXPECT_EQ(Stored(), 3u) << "an entry of the old term was stored";
  ASSERT_TRUE(state_->Append(Entries(3, 6)).ok());
  EXPECT_EQ(Value(parts_->durable().shard()), Value(*shard_));
  // A restart finds the same entries in the store.
  uint64_t last = 0;
  ASSERT_TRUE(storage_
                  ->ReadLog(first_ - 1,
                            [&last](const LogEntry& entry) {
                              last = entry.number;
                              return OkStatus();
                            })
                  .ok());
  EXPECT_EQ(last, first_ + 5);
}

// The log has written the entries since the last attempt, so they are part of the state. The
// primary decides whether its log has them.
TEST_F(FollowerStateTest, EntriesThatTheLogHasWrittenMeanwhileKeepTheirTerm) {
  storage_->append_fails = true;
  EXPECT_FALSE(state_->Append(Entries(0, 2)).ok());
  storage_->append_fails = false;
  parts_->durable().log()->Turn();
  const LogTerm next = {.history = 7, .number = 3, .start = 0};
  EXPECT_EQ(state_->SetTerm(next).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(state_->position().has_state);
  EXPECT_EQ(state_->position().term, kTerm);
  EXPECT_EQ(Stored(), 2u);
  ASSERT_TRUE(state_->SetTerm(next).ok());
  ASSERT_TRUE(state_->Append(Entries(2, 6)).ok());
  EXPECT_EQ(Value(parts_->durable().shard()), Value(*shard_));
}

// The disk becomes full between two entries of one reply.
TEST_F(FollowerStateTest, OnlyTheWrittenEntriesOfAReplyAreKept) {
  int received = 0;
  parts_->on_append = [&] {
    if (++received > 1) return;
    parts_->durable().log()->Turn();
    storage_->append_fails = true;
  };
  EXPECT_EQ(state_->Append(Entries(0, 3)).code(), StatusCode::kResourceExhausted);
  parts_->on_append = nullptr;
  const LogTerm next = {.history = 7, .number = 3, .start = 0};
  EXPECT_EQ(state_->SetTerm(next).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(state_->position().has_state);
  EXPECT_EQ(state_->position().last, first_);
  EXPECT_EQ(Stored(), 1u);
  storage_->append_fails = false;
  ASSERT_TRUE(state_->SetTerm(next).ok());
  ASSERT_TRUE(state_->Append(Entries(1, 6)).ok());
  EXPECT_EQ(Value(parts_->durable().shard()), Value(*shard_));
}

// The state of the snapshot is that at its entry, although the standby goes on before it copies.
TEST_F(FollowerStateTest, AStandbyTakesTheSnapshotsOfItsPrimary) {
  InsertSnapshot(3, {.number = 5, .time_us = 77});
  ASSERT_TRUE(state_->Append(Entries(0, 3)).ok());
  const float then = Value(parts_->durable().shard());
  ASSERT_TRUE(state_->Append(Entries(3, 7)).ok());
  EXPECT_THAT(Snapshots(), testing::IsEmpty());
  parts_->Save();
  const std::vector<StoredGlobalSnapshot> stored = *disk_->GlobalSnapshots();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].number, 5u);
  EXPECT_EQ(stored[0].time_us, 77);
  EXPECT_EQ(stored[0].version, 3u);
  EXPECT_EQ(Value(parts_->durable().shard()), Value(*shard_));
  EXPECT_EQ(parts_->durable().shard().Info().last_snapshot, 5u);
  ASSERT_TRUE(state_->Promote(9, 0, Replication::kQuorum).ok());
  EXPECT_EQ(*parts_->durable().Restore(5), 3u);
  EXPECT_EQ(Value(parts_->durable().shard()), then);
}

TEST_F(FollowerStateTest, ASnapshotThatAKillPreventedIsTakenAtTheNextStart) {
  InsertSnapshot(2, {.number = 4});
  InsertSnapshot(4, {.number = 6, .time_us = 0, .complete = 4, .whole = {4}});
  ASSERT_TRUE(state_->Append(Entries(0, 3)).ok());
  parts_->Save();
  EXPECT_THAT(Snapshots(), testing::ElementsAre(4));
  ASSERT_TRUE(state_->Append(Entries(3, 8)).ok());
  parts_->saves.clear();
  Restart();
  parts_->Save();
  EXPECT_THAT(Snapshots(), testing::ElementsAre(4, 6));
  EXPECT_EQ(disk_->ReadGlobalSnapshot(6)->version, 3u);
}

TEST_F(FollowerStateTest, SnapshotsThatWaitAreWrittenInTheOrderOfTheLog) {
  InsertSnapshot(2, {.number = 4});
  InsertSnapshot(4, {.number = 6});
  ASSERT_TRUE(state_->Append(Entries(0, 3)).ok());  // waits in `saves`
  parts_->busy = true;                              // no save can wait beside it
  ASSERT_TRUE(state_->Append(Entries(3, 8)).ok());
  EXPECT_THAT(Snapshots(), testing::IsEmpty());
  parts_->busy = false;
  parts_->Save();
  EXPECT_THAT(Snapshots(), testing::ElementsAre(4, 6));
  EXPECT_EQ(disk_->ReadGlobalSnapshot(4)->version, 2u);
  EXPECT_EQ(disk_->ReadGlobalSnapshot(6)->version, 3u);
}

TEST_F(FollowerStateTest, ACheckpointWaitsForTheSnapshotsBeforeIt) {
  InsertSnapshot(3, {.number = 5});
  ASSERT_TRUE(state_->Append(Entries(0, 7)).ok());
  EXPECT_THAT(Snapshots(), testing::IsEmpty());
  ASSERT_TRUE(parts_->durable().Save().ok());
  EXPECT_THAT(Snapshots(), testing::ElementsAre(5));
}

// The rules have removed snapshot 4 since, and the log still has its entry.
TEST_F(FollowerStateTest, ARemovedSnapshotDoesNotComeBackAtARestart) {
  InsertSnapshot(1, {.number = 4});
  InsertSnapshot(3, {.number = 5, .time_us = 0, .complete = 4, .whole = {4}});
  InsertSnapshot(5, {.number = 6, .time_us = 0, .complete = 5, .whole = {4, 5}});
  ASSERT_TRUE(state_->Append(Entries(0, 9)).ok());
  parts_->Save();
  EXPECT_THAT(Snapshots(), testing::ElementsAre(5, 6));  // SnapshotKeep: last=2
  Restart();
  parts_->Save();
  const std::vector<StoredGlobalSnapshot> stored = *disk_->GlobalSnapshots();
  ASSERT_EQ(stored.size(), 2u);
  for (const StoredGlobalSnapshot& s : stored) EXPECT_FALSE(s.abandoned) << s.number;
  EXPECT_EQ(parts_->durable().shard().Info().last_snapshot, 6u);
}

// A member whose checkpoint came from another one has fewer snapshots, but lists those of the
// other.
TEST_F(FollowerStateTest, TheListOfSnapshotsSurvivesAMemberWithoutThem) {
  const ShardSnapshot image = *shard_->checkpoints().Take();
  for (const uint64_t number : {2, 3}) {
    ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = number, .time_us = 7}, image, {}).ok());
  }
  ASSERT_TRUE(storage_->Write(image).ok());
  const std::unique_ptr<Storage> other = *OpenRocksdbStorage(dir_ + "/other");
  Install(*storage_, *other);
  EXPECT_TRUE(other->GlobalSnapshots()->empty());
  EXPECT_EQ(*other->LastSnapshotNumber(), 3u);
  ASSERT_TRUE(other->Write(image).ok());
  Install(*other, *storage_);
  EXPECT_THAT(Snapshots(), testing::ElementsAre(2, 3));
  // A snapshot of another time is another one, although it has the same number.
  ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = 3, .time_us = 8}, image, {}).ok());
  Install(*other, *storage_);
  EXPECT_THAT(Snapshots(), testing::ElementsAre(2));
}

// The member was killed in the midst of a restore that the new primary does not know.
TEST_F(FollowerStateTest, AFetchedCheckpointEndsAnUnfinishedRestore) {
  const ShardSnapshot image = *shard_->checkpoints().Take();
  for (const uint64_t number : {2, 3}) {
    ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = number}, image, {}).ok());
  }
  ASSERT_TRUE(storage_->Write(image).ok());
  const std::unique_ptr<Storage> other = *OpenRocksdbStorage(dir_ + "/other");
  Install(*storage_, *other);
  ASSERT_TRUE(storage_->BeginRestore({.number = image.log_number, .snapshot = 2}).ok());
  Install(*other, *storage_);
  const std::vector<StoredGlobalSnapshot> stored = *disk_->GlobalSnapshots();
  ASSERT_EQ(stored.size(), 2u);
  for (const StoredGlobalSnapshot& s : stored) EXPECT_FALSE(s.abandoned) << s.number;
}

// The primary restored snapshot 2 or has never stored 5, so they are of another state.
TEST_F(FollowerStateTest, AFetchedCheckpointKeepsOnlyTheSnapshotsBeforeIt) {
  for (const uint64_t number : {2, 3, 5}) {
    const ShardSnapshot image = *shard_->checkpoints().Take();
    ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = number}, image, {}).ok());
  }
  const std::string primary_dir = dir_ + "/primary";
  const std::unique_ptr<Storage> primary = *OpenRocksdbStorage(primary_dir);
  const ShardSnapshot image = *shard_->checkpoints().Take();
  for (const uint64_t number : {2, 3}) {
    ASSERT_TRUE(primary->WriteGlobalSnapshot({.number = number}, image, {}).ok());
  }
  ASSERT_TRUE(primary->BeginRestore({.number = 9, .snapshot = 2}).ok());
  ASSERT_TRUE(primary->WriteGlobalSnapshot({.number = 6}, image, {}).ok());
  ASSERT_TRUE(primary->Write(image).ok());
  Install(*primary, *storage_);
  EXPECT_THAT(Snapshots(), testing::ElementsAre(2));
  ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = 7}, image, {}).ok());
  const std::vector<StoredGlobalSnapshot> stored = *disk_->GlobalSnapshots();
  for (const StoredGlobalSnapshot& s : stored) EXPECT_FALSE(s.abandoned) << s.number;
}

}  // namespace
}  // namespace tandem::pserver
