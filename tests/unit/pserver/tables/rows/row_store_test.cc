// Tests the slots of rows across slabs and across blocks of slabs.
#include "pserver/tables/rows/row_store.h"

#include <gtest/gtest.h>

#include <thread>

namespace tandem::pserver {
namespace {

constexpr int64_t kFloats = 60 << 10;  // length of a row in floats: four rows fill a slab
constexpr uint64_t kRows = 4 * 40;     // number of rows: more than two blocks have

void Put(RowStore& rows, uint64_t id) {
  const auto at = rows.Add(id);
  ASSERT_TRUE(at.ok()) << at.status();
  float* const row = rows.Row(*at);
  row[0] = row[kFloats - 1] = static_cast<float>(id);
  rows.Mark(*at) = static_cast<uint8_t>(id);
}

void Expect(const RowStore& rows, uint64_t id) {
  uint32_t at = 0;
  rows.Find({&id, 1}, &at);
  ASSERT_NE(at, RowStore::kNone) << id;
  EXPECT_EQ(rows.Id(at), id);
  EXPECT_EQ(rows.Row(at)[0], static_cast<float>(id));
  EXPECT_EQ(rows.Row(at)[kFloats - 1], static_cast<float>(id));
  EXPECT_EQ(const_cast<RowStore&>(rows).Mark(at), static_cast<uint8_t>(id));
}

TEST(RowStoreTest, RowsKeepTheirValuesWhileOthersComeAndGo) {
  RowStore rows(kFloats);
  for (uint64_t id = 0; id < kRows; ++id) Put(rows, id);
  const size_t full = rows.bytes();
  // Removes rows down to the first slabs, which belong to no block. Some of the checks happen when
  // a block is partly filled.
  for (uint32_t left = kRows; left > 4 * 10; left -= 4 * 5) {
    while (rows.size() > left) rows.Remove(rows.size() / 2);
    for (uint32_t n = 0; n < rows.size(); ++n) Expect(rows, rows.Id(rows.At(n)));
  }
  EXPECT_LT(rows.bytes(), full / 2);
  std::vector<uint64_t> ids;
  for (uint32_t n = 0; n < rows.size(); ++n) ids.push_back(rows.Id(rows.At(n)));
  for (uint64_t id = kRows; rows.size() < kRows; ++id) {
    Put(rows, id);
    ids.push_back(id);
  }
  for (const uint64_t id : ids) Expect(rows, id);
  EXPECT_EQ(rows.bytes(), full);
}

TEST(RowStoreTest, ManyRowsAreAddedByThreadsWithBucketsOfTheirOwn) {
  RowStore rows(kFloats);
  Put(rows, 1000);
  const auto grown = rows.Grow(kRows, false);
  ASSERT_TRUE(grown.ok()) << grown.status();
  const uint32_t first = *grown;
  const auto insert = [&](int from, int to) {
    for (uint64_t id = 0; id < kRows; ++id) {
      if (RowBucket(id) < from || RowBucket(id) >= to) continue;
      const uint32_t at = first + static_cast<uint32_t>(id);
      rows.Insert(id, at);
      rows.Row(at)[0] = rows.Row(at)[kFloats - 1] = static_cast<float>(id);
      EXPECT_EQ(rows.Mark(at), 0);
      rows.Mark(at) = static_cast<uint8_t>(id);
    }
  };
  std::thread other(insert, 0, 600);
  insert(600, kRowBuckets);
  other.join();
  EXPECT_EQ(rows.size(), kRows + 1);
  for (uint64_t id = 0; id < kRows; ++id) Expect(rows, id);
  Expect(rows, 1000);
  Put(rows, 1001);
  EXPECT_EQ(rows.Id(rows.At(kRows + 1)), 1001u);
}

}  // namespace
}  // namespace tandem::pserver
