// The hash index of a bucket, compared with std::map.
#include "pserver/tables/rows/row_hash_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tandem::pserver {
namespace {

void ExpectSame(const RowHashTable& index, const std::map<uint64_t, uint32_t>& expected) {
  ASSERT_EQ(index.size(), expected.size());
  for (const auto& [id, at] : expected) ASSERT_EQ(index.Find(id), at) << id;
  std::map<uint64_t, uint32_t> all;
  index.ForEach([&](uint64_t id, uint32_t at) { EXPECT_TRUE(all.emplace(id, at).second) << id; });
  EXPECT_EQ(all, expected);
}

TEST(BucketIndexTest, FindsWhatCameAndNotWhatWent) {
  std::mt19937_64 random(3);
  for (const uint64_t ids : {uint64_t{20}, uint64_t{300}, uint64_t{1} << 40}) {
    RowHashTable index;
    std::map<uint64_t, uint32_t> expected;
    EXPECT_EQ(index.Find(0), RowHashTable::kNone);
    for (uint32_t at = 0; at < 3000; ++at) {
      const uint64_t id = random() % ids;
      EXPECT_EQ(index.FindOrAdd(id, at), expected.try_emplace(id, at).first->second);
      if (random() % 3 == 0) {
        const auto some = expected.lower_bound(random() % ids);
        if (some == expected.end()) continue;
        index.Erase(some->first);
        EXPECT_EQ(index.Find(some->first), RowHashTable::kNone);
        expected.erase(some);
      } else if (random() % 3 == 0) {
        index.Set(id, at + 7);
        expected[id] = at + 7;
      }
      if (at % 100 == 0) ExpectSame(index, expected);
    }
    ExpectSame(index, expected);
    while (!expected.empty()) {
      index.Erase(expected.begin()->first);
      expected.erase(expected.begin());
      if (expected.size() % 100 == 0) ExpectSame(index, expected);
    }
    EXPECT_EQ(index.Find(1), RowHashTable::kNone);
  }
}

TEST(BucketIndexTest, FarAndNearIdsAndRoomAhead) {
  for (const uint64_t apart : {uint64_t{1}, uint64_t{1024}, uint64_t{1} << 44}) {
    RowHashTable index;
    index.Reserve(5000);
    std::map<uint64_t, uint32_t> expected;
    for (uint32_t i = 0; i < 5000; ++i) {
      index.FindOrAdd(i * apart, i);
      index.Prefetch(i * apart);
      expected[i * apart] = i;
    }
    ExpectSame(index, expected);
    EXPECT_EQ(index.Find(5000 * apart + 1), RowHashTable::kNone);
  }
}

}  // namespace
}  // namespace tandem::pserver
