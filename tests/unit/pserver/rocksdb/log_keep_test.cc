// Tests logs that keep entries which a checkpoint contains, and states that are made of them.
#include <filesystem>

#include "gmock/gmock.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/rocksdb/store_reader.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/durable_shard.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class LogKeepTest : public ShardFixture {
 protected:
  LogKeepTest() : dir_(testing::TempDir() + "/keep_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~LogKeepTest() override {
    shard_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Open(uint64_t keep) {
    storage_.reset();
    storage_ = *OpenRocksdbStorage(dir_, nullptr, {.log_keep_bytes = keep});
  }
  // Writes entries of `elements` numbers each.
  void Append(uint64_t first, uint64_t last, int64_t elements = 4) {
    for (uint64_t n = first; n <= last; ++n) {
      LogEntry entry{.number = n, .record = {}};
      PushRecord push{Head(Rank(0), n, n), {}};
      push.head.slices = {{"w", 0, {DType::kF32, Shape{elements}}}};
      push.values = {FloatBuffer(std::vector<float>(static_cast<size_t>(elements), 1.0f))};
      entry.record = std::move(push);
      ASSERT_TRUE(storage_->AppendLog({&entry, 1}, false).ok());
    }
  }
  void Checkpoint(uint64_t log_number) {
    Make();
    Start(Config(1, UpdatePolicy::kSync));
    ShardSnapshot image = *shard_->checkpoints().Take();
    image.log_number = log_number;
    ASSERT_TRUE(storage_->Write(image).ok());
  }
  // Returns the numbers of the entries; those after a restore are negative.
  std::vector<int64_t> Entries() const {
    std::vector<int64_t> numbers;
    const Status status = storage_->ScanLog(1, [&](const ScannedEntry& e) {
      EXPECT_GT(e.time_us, 0);
      const auto number = static_cast<int64_t>(e.entry.number);
      numbers.push_back(e.restored ? -number : number);
      return OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return numbers;
  }

  std::string dir_;
  std::unique_ptr<Storage> storage_;
};

TEST_F(LogKeepTest, ACheckpointKeepsOldEntries) {
  Open(1 << 20);
  Append(1, 6);
  Checkpoint(4);
  EXPECT_THAT(Entries(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(storage_->LastBreak()->number, 0u);
  EXPECT_EQ(storage_->BeginRestore({.number = 4, .snapshot = 7}).code(), StatusCode::kNotFound);
  ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = 7}, *shard_->checkpoints().Take(), {}).ok());
  ASSERT_TRUE(storage_->BeginRestore({.number = 4, .snapshot = 7}).ok());
  EXPECT_EQ(storage_->LastBreak()->number, 4u);
  EXPECT_EQ(storage_->LastBreak()->snapshot, 7u);
  EXPECT_THAT(Entries(), ElementsAre(1, 2, 3, 4, -5, 6));
  // A restart reads only what the checkpoint lacks.
  Open(1 << 20);
  std::vector<uint64_t> replayed;
  ASSERT_TRUE(storage_
                  ->ReadLog(4,
                            [&](const LogEntry& e) {
                              replayed.push_back(e.number);
                              return OkStatus();
                            })
                  .ok());
  EXPECT_THAT(replayed, ElementsAre(5, 6));
  // Another process reads the directory meanwhile.
  const auto reader = StoreReader::Open(dir_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->first_entry(), 1u);
  EXPECT_EQ((*reader)->last_entry(), 6u);
  const auto states = (*reader)->States();
  ASSERT_TRUE(states.ok()) << states.status();
  ASSERT_EQ(states->size(), 2u);
  EXPECT_EQ((*states)[1].log_number, 4u);
  EXPECT_EQ(StoreReader::Open(dir_ + "/nothing").status().code(), StatusCode::kNotFound);
  // Without the setting, the next checkpoint removes them.
  Open(0);
  Checkpoint(5);
  EXPECT_THAT(Entries(), ElementsAre(6));
  // The newest break stays, because snapshots from before it may be there.
  EXPECT_EQ(storage_->LastBreak()->number, 4u);
  ASSERT_TRUE(storage_->ClearLog().ok());
  EXPECT_THAT(Entries(), ElementsAre());
}

TEST_F(LogKeepTest, TheOldestEntriesGoFirst) {
  constexpr int64_t kElements = 1 << 18;  // 1 MiB
  Open(12 << 20);
  Append(1, 40, kElements);
  Checkpoint(40);
  const std::vector<int64_t> kept = Entries();
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept.back(), 40);
  EXPECT_LE(kept.size(), 12u);
  EXPECT_GE(kept.size(), 6u);
  EXPECT_EQ(kept.size(), static_cast<size_t>(40 - kept.front() + 1));
}

TEST_F(LogKeepTest, AFullDiskLosesNoKeptSnapshot) {
  Open(0);
  Make();
  Start(Config(1, UpdatePolicy::kSync));
  const ShardSnapshot image = *shard_->checkpoints().Take();
  for (const uint64_t number : {1, 2, 3}) {
    ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = number}, image, {}).ok());
  }
  storage_.reset();
  storage_ = *OpenRocksdbStorage(dir_, nullptr, {.free_bytes_min = uint64_t{1} << 62});
  // Snapshot 1 may go: the rules do not keep it. Its room is not enough.
  const std::vector<uint64_t> removed = {1};
  const Status full = storage_->WriteGlobalSnapshot({.number = 4}, image, removed).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("[TD2107]"));
  const std::vector<StoredGlobalSnapshot> left = *storage_->GlobalSnapshots();
  ASSERT_EQ(left.size(), 2u);
  for (const StoredGlobalSnapshot& s : left) {
    EXPECT_GE(s.number, 2u);
    EXPECT_TRUE(storage_->ReadGlobalSnapshot(s.number).ok());
  }
}

// A server in sync mode whose state of an earlier step is made of a snapshot and the log.
class RebuildTest : public LogKeepTest {
 protected:
  void Begin(UpdatePolicy mode, uint64_t keep = 1 << 20) {
    Open(keep);
    DurableShard::Options options;
    options.logged = true;
    options.log.on_work = [] {};
    options.later = [](const std::function<void()>& work) {
      work();
      return OkStatus();
    };
    durable_ = std::make_unique<DurableShard>(options, storage_.get(), clock_, backend_, device_,
                                              metrics_);
    ASSERT_TRUE(durable_->Recover().ok());
    shard_.reset(&durable_->shard());  // for the functions of the fixture
    Start(Config(1, mode, "adam"));
  }
  void End() {
    shard_.release();
    durable_.reset();
  }
  void PushSteps(uint64_t first, uint64_t last) {
    for (uint64_t s = first; s < last; ++s) {
      PushHead head = Head(Rank(0), s + 1, s);
      head.numbers = {{s + 1}, {s}};
      ASSERT_TRUE(Push(head, 0.25f * static_cast<float>(s + 1)).ok());
      durable_->log()->Turn();
      values_.push_back(Values(*PullNow(s + 1))[0]);
    }
  }
  Status Rebuild(uint64_t number, uint64_t version) {
    Status status = Internal("not answered");
    durable_->TakeGlobalSnapshot(
        "job", {.request = {.record = {.number = number}}, .rebuilt = version},
        [&status](const StatusOr<DurableShard::SnapshotPart>& part) { status = part.status(); });
    return status;
  }
  std::string Refusal(uint64_t number, uint64_t version) {
    return std::string(Rebuild(number, version).message());
  }

  std::unique_ptr<DurableShard> durable_;
  std::vector<float> values_;  // the first parameter after each step
};

TEST_F(RebuildTest, AnyStepThatTheLogReaches) {
  Begin(UpdatePolicy::kSync);
  PushSteps(0, 3);
  const ShardSnapshot third = *durable_->shard().checkpoints().Take();
  ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = 1}, third, {}).ok());
  PushSteps(3, 10);
  ASSERT_TRUE(durable_->Save().ok());
  PushSteps(10, 12);
  EXPECT_THAT(Refusal(2, 2), HasSubstr("the oldest state since the last restore is of step 3"));
  EXPECT_THAT(Refusal(3, 13), HasSubstr("the log ends at step 12"));
  for (const uint64_t step : {3, 4, 9, 10, 12}) {
    const uint64_t number = 10 + step;
    const Status made = Rebuild(number, step);
    ASSERT_TRUE(made.ok()) << step << ": " << made;
    const auto image = storage_->ReadGlobalSnapshot(number);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->version, step);
    EXPECT_EQ(Floats(image->slices[0].param, 1)[0], values_[step - 1]) << step;
  }
  EXPECT_EQ(durable_->shard().Info().version, 12u) << "the served state changes";
  ASSERT_EQ(*durable_->Restore(19), 9u);
  EXPECT_THAT(Refusal(30, 5), HasSubstr("the oldest state since the last restore is of step 9"));
  // The entries after a restore belong to the restored snapshot.
  std::vector<float> again;
  for (uint64_t step = 9; step < 12; ++step) {
    ASSERT_TRUE(Push(Head(Rank(0, kIncarnation + 1), step + 1, step), 2.0f).ok());
    durable_->log()->Turn();
    again.push_back(Floats(durable_->shard().checkpoints().Take()->slices[0].param, 1)[0]);
  }
  EXPECT_NE(again[1], values_[10]);
  ASSERT_TRUE(Rebuild(31, 11).ok());
  EXPECT_EQ(Floats(storage_->ReadGlobalSnapshot(31)->slices[0].param, 1)[0], again[1]);
  End();
}

TEST_F(RebuildTest, OtherServersRefuse) {
  Begin(UpdatePolicy::kASync);
  PushSteps(0, 3);
  EXPECT_THAT(Refusal(2, 2), HasSubstr("only in sync mode"));
  End();
}

TEST_F(RebuildTest, ALogThatWasRemovedIsNamed) {
  Begin(UpdatePolicy::kSync, /*keep=*/0);
  PushSteps(0, 2);
  const ShardSnapshot second = *durable_->shard().checkpoints().Take();
  ASSERT_TRUE(storage_->WriteGlobalSnapshot({.number = 1}, second, {}).ok());
  PushSteps(2, 4);
  ASSERT_TRUE(durable_->Save().ok());
  PushSteps(4, 6);
  EXPECT_THAT(Refusal(2, 3), HasSubstr("after the state of step 2 the log begins with entry"));
  EXPECT_TRUE(Rebuild(3, 5).ok());
  End();
}

}  // namespace
}  // namespace tandem::pserver
