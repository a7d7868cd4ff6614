// Tests which directories the history of a row reads, and the norms of its gradients.
#include "pserver/history/row_history.h"

#include <cmath>
#include <filesystem>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/storage/storage.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

class RowHistoryTest : public ShardFixture {
 protected:
  RowHistoryTest() : dir_(testing::TempDir() + "/history_XXXXXX") {
    CHECK(mkdtemp(dir_.data()) != nullptr);
  }
  ~RowHistoryTest() override { std::filesystem::remove_all(dir_); }

  std::string DirOf(const std::string& member, int server = 0) const {
    return absl::StrFormat("%s/%s/shard-%d", dir_, member, server);
  }
  // Makes the directory of a member, with the table emb if it has a checkpoint, and with `entries`
  // pushes to the rows 3 and 5. `counts`: numbers before the gradient of a row.
  void Make(const std::string& member, LogTerm term, uint64_t entries, bool checkpoint = true,
            std::vector<float> counts = {}) {
    auto storage = *OpenRocksdbStorage(DirOf(member), nullptr, {.log_keep_bytes = 1 << 20});
    ASSERT_TRUE(storage->files()->SetTerm(term).ok());
    for (uint64_t n = 1; n <= entries; ++n) {
      const auto width = static_cast<int64_t>(counts.size()) + 2;
      PushRecord push{Head(Rank(0), n, n - 1), {}};
      push.head.slices = {{"emb", 0, {DType::kI64, Shape{2}}},
                          {"emb", 0, {DType::kF32, Shape{2, width}}}};
      BufferPool pool(0);
      Buffer ids = *pool.Take(2 * sizeof(int64_t));
      const int64_t rows[] = {3, 5};
      std::memcpy(ids.get(), rows, sizeof(rows));
      std::vector<float> values;
      for (int row = 0; row < 2; ++row) {
        values.insert(values.end(), counts.begin(), counts.end());
        values.insert(values.end(), {3, 4});
      }
      push.values = {ids, FloatBuffer(values)};
      const LogEntry entry{.number = n, .record = std::move(push)};
      ASSERT_TRUE(storage->AppendLog({&entry, 1}, true).ok());
    }
    if (!checkpoint) return;
    shard_.reset();
    Start(Config(1, UpdatePolicy::kASync));
    ShardSnapshot image = *shard_->checkpoints().Take();
    image.config.tables = {{.variable = "emb", .shape = Shape{10, 2}, .bucket_end = kRowBuckets}};
    image.tables.resize(1);
    image.log_number = entries;  // no entry follows the state, so none is replayed
    ASSERT_TRUE(storage->Write(image).ok());
  }

  std::string dir_;
};

TEST_F(RowHistoryTest, TheLatestTermIsBeforeTheLongestLog) {
  Make("pserver-0", {.history = 7, .number = 1}, 9);
  Make("pserver-0.member-1", {.history = 7, .number = 3}, 4);
  Make("pserver-0.member-2", {.history = 7, .number = 3}, 2);
  const auto dirs = ServerDirs(dir_);
  ASSERT_TRUE(dirs.ok()) << dirs.status();
  EXPECT_EQ(dirs->at(0), DirOf("pserver-0.member-1"));
}

TEST_F(RowHistoryTest, ADirectoryWithoutACheckpointIsTheLastChoice) {
  Make("pserver-0", {.history = 7, .number = 2}, 0, /*checkpoint=*/false);
  EXPECT_EQ(ServerDirs(dir_)->at(0), DirOf("pserver-0"));
  const auto none = HistoryOfRow(DirOf("pserver-0"), 0, "emb", 3);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_table);
  EXPECT_TRUE(none->pushes.empty());
  Make("pserver-0.member-1", {.history = 7, .number = 1}, 3);
  EXPECT_EQ(ServerDirs(dir_)->at(0), DirOf("pserver-0.member-1"));
}

TEST_F(RowHistoryTest, CountsAreNoPartOfAGradient) {
  Make("pserver-0", {}, 2, /*checkpoint=*/true, /*counts=*/{100, 50});
  const auto history = HistoryOfRow(DirOf("pserver-0"), 0, "emb", 5);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_EQ(history->pushes.size(), 2u);
  EXPECT_DOUBLE_EQ(history->pushes[0].gradient_norm, 5);
}

}  // namespace
}  // namespace tandem::pserver
