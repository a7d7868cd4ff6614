// Tests the stored weights that rows had before the last step.
#include "pserver/tables/previous_weights.h"

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PreviousWeightsTest : public testing::Test {
 protected:
  // Adds a row whose two weights are `value`.
  void AddRow(uint64_t id, float value) { std::fill_n(rows_.Row(*rows_.Add(id)), 2, value); }
  // Returns the previous weights of each id; for an id without an entry, `now` twice.
  std::vector<float> Overwritten(const std::vector<uint64_t>& ids, float now) const {
    std::vector<float> out(2 * ids.size(), now);
    previous_.Overwrite(ids, out.data());
    return out;
  }

  RowStore rows_{2};
  PreviousWeights previous_{2, rows_};
};

TEST_F(PreviousWeightsTest, TheStepGivesThoseOfItsIds) {
  previous_.Begin(true);
  const std::vector<uint64_t> ids = {4, 9};
  float* const to = previous_.OfIds(ids);
  for (int i = 0; i < 4; ++i) to[i] = static_cast<float>(i);
  EXPECT_THAT(Overwritten({9, 5, 4}, -1), ElementsAre(2, 3, -1, -1, 0, 1));
  previous_.Begin(true);
  EXPECT_THAT(Overwritten({9}, -1), ElementsAre(-1, -1));
}

TEST_F(PreviousWeightsTest, ARemovedRowHasZerosAfterItsColumns) {
  const float weights[] = {7, 8};
  previous_.Begin(false);
  previous_.KeepRemoved(4, weights, 2);
  EXPECT_THAT(previous_.Rows("emb").ids, IsEmpty()) << "nothing is kept";
  previous_.Begin(true);
  previous_.KeepRemoved(4, weights, 1);
  EXPECT_THAT(Overwritten({4}, -1), ElementsAre(7, 0));
}

TEST_F(PreviousWeightsTest, ARemovedRowIsStrongerThanTheStep) {
  const float removed[] = {7, 8};
  previous_.Begin(true);
  previous_.KeepRemoved(4, removed, 2);
  const std::vector<uint64_t> ids = {4, 9};
  std::fill_n(previous_.OfIds(ids), 4, 1.0f);
  EXPECT_THAT(Overwritten({4, 9}, -1), ElementsAre(7, 8, 1, 1));
  const RowValues rows = previous_.Rows("emb");
  EXPECT_EQ(rows.variable, "emb");
  EXPECT_THAT(rows.ids, ElementsAre(4, 9));
  EXPECT_THAT(rows.content, ElementsAre(7, 8, 1, 1));
}

TEST_F(PreviousWeightsTest, PinnedEntriesOutliveAMoveOfRows) {
  AddRow(4, 1);
  AddRow(9, 2);
  previous_.Begin(true);
  float* const to = previous_.OfAllRows();
  for (int i = 0; i < 4; ++i) to[i] = static_cast<float>(i);
  AddRow(5, 3);  // a row added after the step has no entry
  EXPECT_THAT(Overwritten({4, 5, 9}, -1), ElementsAre(0, 1, -1, -1, 2, 3));
  previous_.Pin();
  rows_.Remove(0);  // row 5 moves to index 0
  EXPECT_THAT(Overwritten({4, 5, 9}, -1), ElementsAre(0, 1, -1, -1, 2, 3));
}

TEST_F(PreviousWeightsTest, RowsOfBucketsAreThoseOfTheBuckets) {
  previous_.Begin(true);
  previous_.Set({.variable = "emb", .ids = {4, 9}, .content = {1, 2, 3, 4}});
  ASSERT_NE(RowBucket(4), RowBucket(9));
  const std::vector<int> buckets = {RowBucket(9)};
  const RowValues rows = previous_.Rows("emb", buckets);
  EXPECT_THAT(rows.ids, ElementsAre(9));
  EXPECT_THAT(rows.content, ElementsAre(3, 4));
}

}  // namespace
}  // namespace tandem::pserver
