// Tests the weights of rows that a pull reads.
#include "pserver/tables/rows/row_reader.h"

#include "gmock/gmock.h"
#include "kernels/exec/scope.h"

namespace tandem::pserver {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr int64_t kHeight = 1000, kDim = 3;
constexpr uint64_t kSeed = 11;
const graph::Init kInit = {graph::Init::kUniform, -0.5f, 0.5f};

class RowReaderTest : public testing::Test {
 protected:
  explicit RowReaderTest(TableRules rules = {})
      : spec_{"emb", Shape{kHeight, kDim}, kInit, kSeed, 0, kRowBuckets, rules},
        rows_(spec_, kDim, /*brief_width=*/rules.accessor == RowAccessorKind::kCtr ? 1 : 0) {}
  void AddRow(uint64_t id, float value, bool brief = false) {
    const uint32_t at = *rows_.store().Add(id, brief);
    std::fill_n(rows_.store().Row(at), brief ? 1 : kDim, value);
  }
  std::vector<float> Gathered(const std::vector<uint64_t>& ids) {
    std::vector<float> out(ids.size() * kDim, -1.0f);
    reader_.Gather(ids, out.data());
    return out;
  }
  static std::vector<float> Initial(uint64_t id) {
    std::vector<float> all(kHeight * kDim);
    exec::FillInitial("emb", kInit, Shape{kHeight, kDim}, kSeed, 0, all);
    const auto begin = all.begin() + static_cast<int64_t>(id) * kDim;
    return {begin, begin + kDim};
  }

  const TableSpec spec_;
  TableRowSet rows_;
  const RowParts parts_{nullptr};
  RowReader reader_{spec_, rows_, parts_};
};

TEST_F(RowReaderTest, AnAbsentRowReadsAsItsInitialValues) {
  AddRow(4, 7);
  const std::vector<float> nine = Initial(9);
  EXPECT_THAT(Gathered({9, 4}), ElementsAre(nine[0], nine[1], nine[2], 7, 7, 7));
  std::vector<float> two(2);
  reader_.CopyInitial(9, 2, two.data());
  EXPECT_THAT(two, ElementsAre(nine[0], nine[1]));
}

TEST_F(RowReaderTest, ManyRowsAreReadInGroups) {
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < kHeight; ++id) {
    ids.push_back(id);
    if (id % 3 == 0) AddRow(id, static_cast<float>(id));
  }
  const std::vector<float> out = Gathered(ids);
  for (const uint64_t id : {0u, 126u, 129u, 300u, 999u}) {
    EXPECT_EQ(out[id * kDim + 2], static_cast<float>(id));
  }
  for (const uint64_t id : {1u, 127u, 128u, 998u}) EXPECT_EQ(out[id * kDim], Initial(id)[0]);
}

TEST_F(RowReaderTest, TheLookupsOfAReadAreValidUntilARowMoves) {
  AddRow(4, 7);
  AddRow(5, 8);
  const std::vector<uint64_t> ids = {4, 9}, others = {4, 5};
  Gathered(ids);
  EXPECT_EQ(reader_.Recent(others), nullptr);
  const PullLookupCache::Pull* const recent = reader_.Recent(ids);
  ASSERT_NE(recent, nullptr);
  EXPECT_EQ(recent->at[1], RowStore::kNone);
  EXPECT_EQ(recent->fresh, Initial(9));
  rows_.store().Remove(recent->at[0]);
  EXPECT_EQ(reader_.Recent(ids), nullptr);
}

class AdmittedRowReaderTest : public RowReaderTest {
 protected:
  static TableRules Rules() {
    TableRules rules;
    rules.admit_count = 2;
    return rules;
  }
  AdmittedRowReaderTest() : RowReaderTest(Rules()) {}
};

TEST_F(AdmittedRowReaderTest, AnAbsentRowReadsAsZeros) {
  EXPECT_THAT(Gathered({9}), Each(0.0f));
  const std::vector<uint64_t> ids = {9};
  EXPECT_TRUE(reader_.Recent(ids)->fresh.empty()) << "zeros are not its initial values";
}

class BriefRowReaderTest : public RowReaderTest {
 protected:
  static TableRules Rules() {
    TableRules rules;
    rules.accessor = RowAccessorKind::kCtr;
    return rules;
  }
  BriefRowReaderTest() : RowReaderTest(Rules()) {}
};

TEST_F(BriefRowReaderTest, TheMissingWeightsOfABriefRowReadAsZeros) {
  AddRow(4, 7, /*brief=*/true);
  EXPECT_THAT(Gathered({4}), ElementsAre(7, 0, 0));
  EXPECT_THAT(Gathered({9}), ElementsAre(Initial(9)[0], 0, 0));
}

}  // namespace
}  // namespace tandem::pserver
