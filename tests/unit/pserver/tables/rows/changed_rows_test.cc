// The rows that changed since a version: a reader that asks at any time, for any number of rows,
// gets every changed row.
#include "pserver/tables/rows/changed_rows.h"

#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kMany = 1 << 20;

using Ids = std::vector<uint64_t>;

void Update(ChangedRows& rows, uint64_t version, const Ids& ids) {
  rows.Begin(version);
  rows.Add(ids);
}

TEST(ChangedRows, ReturnsTheRowsAfterAVersion) {
  ChangedRows rows(kMany);
  Update(rows, 4, {1, 9});
  Update(rows, 5, {});
  Update(rows, 6, {3, 9});
  EXPECT_THAT(rows.After({.version = 4}, 7, kMany)->ids, ElementsAre(1, 3, 9));
  EXPECT_THAT(rows.After({.version = 5}, 7, kMany)->ids, ElementsAre(3, 9));
  EXPECT_THAT(rows.After({.version = 7}, 7, kMany)->ids, IsEmpty());
  EXPECT_EQ(rows.After({.version = 5}, 7, kMany)->up_to, ChangedUpTo{.version = 7});
}

TEST(ChangedRows, DoesNotKnowTheChangesBeforeItsFirstUpdate) {
  ChangedRows rows(kMany);
  EXPECT_FALSE(rows.After({.version = 3}, 4, kMany));
  EXPECT_TRUE(rows.After({.version = 4}, 4, kMany));
  Update(rows, 4, {1});
  EXPECT_FALSE(rows.After({.version = 3}, 5, kMany));
  EXPECT_TRUE(rows.After({.version = 4}, 5, kMany));
}

TEST(ChangedRows, AddsTheRowsOfSeveralPushesOfAnUpdate) {
  ChangedRows rows(kMany);
  Update(rows, 0, {5});
  rows.Add(Ids{2, 5});
  EXPECT_THAT(rows.After({}, 1, kMany)->ids, ElementsAre(2, 5));
}

TEST(ChangedRows, ForgetsTheOldestUpdatesBeyondTheLimit) {
  ChangedRows rows(4);
  Update(rows, 0, {1, 2});
  Update(rows, 1, {3, 4});
  EXPECT_TRUE(rows.After({.version = 0}, 2, kMany));
  Update(rows, 2, {5});
  EXPECT_FALSE(rows.After({.version = 0}, 3, kMany));
  EXPECT_THAT(rows.After({.version = 1}, 3, kMany)->ids, ElementsAre(3, 4, 5));
  Update(rows, 3, {1, 2, 3, 4, 5});  // more rows than the limit
  EXPECT_FALSE(rows.After({.version = 3}, 4, kMany));
  EXPECT_TRUE(rows.After({.version = 4}, 4, kMany));
}

TEST(ChangedRows, ForgetsEverythingIfTheVersionDecreases) {
  ChangedRows rows(kMany);
  Update(rows, 8, {1});
  Update(rows, 2, {7});
  EXPECT_FALSE(rows.After({.version = 1}, 3, kMany));
  EXPECT_THAT(rows.After({.version = 2}, 3, kMany)->ids, ElementsAre(7));
}

TEST(ChangedRows, RemembersNothingWithoutMemory) {
  ChangedRows rows(0);
  EXPECT_FALSE(rows.remembers());
  Update(rows, 0, {1});
  EXPECT_FALSE(rows.After({}, 1, kMany));
}

// A row that changes in every update takes the memory of one row in each merged segment.
TEST(ChangedRows, MergesOldUpdates) {
  ChangedRows rows(3000);
  for (uint64_t version = 0; version < 20000; ++version) Update(rows, version, {1, 2});
  EXPECT_THAT(rows.After({.version = 0}, 20000, kMany)->ids, ElementsAre(1, 2));
}

// Several readers, which ask at random times for random numbers of rows, have the newest version of
// every row at the end. `latest`: the version of each row, which stands for its value.
TEST(ChangedRows, ReadersMissNothing) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  ChangedRows rows(kMany);
  std::map<uint64_t, uint64_t> latest;
  struct Reader {
    ChangedUpTo position;
    std::map<uint64_t, uint64_t> has;
  };
  std::vector<Reader> readers(5);
  uint64_t version = 0;
  const auto read = [&](Reader& reader, size_t wanted) {
    const auto result = rows.After(reader.position, version, wanted);
    ASSERT_TRUE(result);
    for (const uint64_t id : result->ids) reader.has[id] = latest.at(id);
    EXPECT_GE(result->up_to.version, reader.position.version);
    if (result->ids.empty()) {
      EXPECT_EQ(result->up_to.version, version);
    }
    reader.position = result->up_to;
  };
  while (version < 6000) {
    std::set<uint64_t> ids;
    for (uint64_t n = random() % 60; n > 0; --n) ids.insert(random() % 5000);
    rows.Begin(version);
    rows.Add(Ids(ids.begin(), ids.end()));
    ++version;
    for (const uint64_t id : ids) latest[id] = version;
    if (random() % 3 == 0) read(readers[random() % readers.size()], 1 + random() % 200);
  }
  for (Reader& reader : readers) {
    while (reader.position != ChangedUpTo{.version = version}) read(reader, 300);
    EXPECT_EQ(reader.has, latest);
  }
}

}  // namespace
}  // namespace tandem::pserver
