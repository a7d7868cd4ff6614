// Tests files with the rows of tables: rows can be read back, and damaged files are rejected.
#include "trainer/ps/table_file.h"

#include <filesystem>

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem::trainer {
namespace {

const ps::PsTable kTable = {.variable = "emb", .dim = 2, .rules = "accessor=ctr"};

// Returns the rows of buckets [begin, end), bucket by bucket, in the order of the servers. Every
// third row waits for admission.
ps::PsTableRows Rows(int begin, int end) {
  ps::PsTableRows rows{.variable = "emb"};
  rows.slots = {"emb@moment"};
  for (int bucket = begin; bucket < end; ++bucket) {
    for (uint64_t id = 0; id < 500; ++id) {
      if (RowBucket(id) != bucket) continue;
      if (id % 3 == 0) {
        rows.waiting.push_back({id, static_cast<uint32_t>(id % 5), 9});
        continue;
      }
      rows.ids.push_back(id);
      // Rows of even buckets have clicks, rows of odd buckets have none. Some rows have no
      // embedding.
      const bool brief = bucket % 3 == 0 && id % 2 == 0;
      rows.use.push_back({static_cast<float>(id) * 0.5f, static_cast<uint32_t>(id + 1),
                          bucket % 2 == 0 ? static_cast<float>(id) : 0.0f, brief});
      for (int i = 0; i < (brief ? 2 : 4); ++i) {
        rows.content.push_back(static_cast<float>(id * 4 + i));
      }
    }
  }
  return rows;
}

std::string Written(const std::string& path, const std::vector<int>& cuts) {
  TableFileWriter file;
  CHECK(file.Open(path).ok());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    CHECK(file.Add(Rows(cuts[i], cuts[i + 1]), kTable).ok());
  }
  CHECK(file.SyncAndClose().ok());
  return *ReadSmallFile(path, 1 << 20);
}

TEST(TableFile, IsTheSameForAnyNumberOfServersAndComesBack) {
  const TempDir dir;
  const std::string path = dir.path() + "/tables.rows";
  const std::string one = Written(path, {0, kRowBuckets});
  EXPECT_EQ(Written(path, {0, 100, 341, 700, kRowBuckets}), one);
  const ps::PsTableRows expected = Rows(0, kRowBuckets);
  ps::PsTableRows all;
  int last = -1;
  const Status status =
      ReadTableFile(path, [&](const ps::PsTableRows& rows, const ps::PsTable& table) {
        EXPECT_EQ(table.dim, kTable.dim);
        EXPECT_EQ(table.rules, kTable.rules);
        EXPECT_EQ(rows.variable, "emb");
        EXPECT_EQ(rows.slots, expected.slots);
        const uint64_t id = rows.ids.empty() ? rows.waiting[0].id : rows.ids[0];
        EXPECT_GT(RowBucket(id), last);
        last = RowBucket(id);
        all.ids.insert(all.ids.end(), rows.ids.begin(), rows.ids.end());
        all.content.insert(all.content.end(), rows.content.begin(), rows.content.end());
        all.use.insert(all.use.end(), rows.use.begin(), rows.use.end());
        for (const auto& w : rows.waiting) all.waiting.push_back(w);
        return OkStatus();
      });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(all.ids, expected.ids);
  EXPECT_EQ(all.content, expected.content);
  EXPECT_TRUE(all.use == expected.use);
  ASSERT_EQ(all.waiting.size(), expected.waiting.size());
  EXPECT_EQ(all.waiting.back().seen, expected.waiting.back().seen);
}

TEST(TableFile, WhatIsCutOrHasAWrongLengthIsRefused) {
  const TempDir dir;
  const std::string path = dir.path() + "/tables.rows";
  const std::string whole = Written(path, {0, 3});
  const auto read = [&](const std::string& bytes) {
    FileWriter file;
    CHECK(file.Open(path).ok());
    CHECK(file.Write(bytes.data(), bytes.size()).ok());
    CHECK(file.SyncAndClose().ok());
    return ReadTableFile(path,
                         [](const ps::PsTableRows&, const ps::PsTable&) { return OkStatus(); });
  };
  ASSERT_TRUE(read(whole).ok());
  uint64_t first = 0;
  std::copy_n(whole.data(), sizeof(first), reinterpret_cast<char*>(&first));
  for (size_t length = 1; length < whole.size(); ++length) {
    const Status status = read(whole.substr(0, length));
    // A file truncated between two records looks complete. Only the SHA-256 in the manifest shows
    // the loss.
    EXPECT_TRUE(!status.ok() || length >= first + sizeof(first)) << length;
  }
  EXPECT_FALSE(read(whole.substr(0, 20)).ok());
  EXPECT_FALSE(read("\xff\xff\xff\xff\xff\xff\xff\xff" + whole).ok());
  EXPECT_FALSE(read(whole + std::string(9, '\x01')).ok());
}

}  // namespace
}  // namespace tandem::trainer
