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
    options.logged = true;
    options.log.on_work = [this] {
      if (on_append) on_append();
    };
    options.later = [](const std::function<void()>& work) {
      work();
      return OkStatus();
    };
    durable_ = std::make_unique<DurableShard>(options, &storage, clock, backend, device, metrics);
  }
  std::function<void()> on_append;  // called after each entry that the log receives

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

}  // namespace
}  // namespace tandem::pserver
