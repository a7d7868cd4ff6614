// Tests the sums of gradients of rows.
#include "pserver/tables/rows/rows_gradient.h"

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<float> Values(const RowsGradient& gradient, size_t width) {
  return {gradient.values, gradient.values + gradient.ids.size() * width};
}

TEST(RowsGradientTest, ASumHasEachIdOnceInOrder) {
  RowsGradientMerger merger(2);
  const std::vector<uint64_t> a = {1, 5}, b = {2, 5, 7}, none;
  const std::vector<float> of_a = {1, 2, 3, 4}, of_b = {10, 20, 30, 40, 50, 60};
  const RowsGradient all[] = {{a, of_a.data()}, {b, of_b.data()}, {none, nullptr}};
  const RowsGradient sum = merger.Sum(all);
  EXPECT_THAT(sum.ids, ElementsAre(1, 2, 5, 7));
  EXPECT_THAT(Values(sum, 2), ElementsAre(1, 2, 10, 20, 33, 44, 50, 60));
}

TEST(RowsGradientTest, TheSumAddsInTheGivenOrder) {
  RowsGradientMerger merger(1);
  const std::vector<uint64_t> id = {3};
  const float large = 1e8f, one = 1, minus = -1e8f;
  const RowsGradient first[] = {{id, &large}, {id, &one}, {id, &minus}};
  EXPECT_EQ(merger.Sum(first).values[0], 0.0f);  // 1e8 + 1 - 1e8 in f32: 1e8 + 1 rounds to 1e8
  const RowsGradient second[] = {{id, &large}, {id, &minus}, {id, &one}};
  EXPECT_EQ(merger.Sum(second).values[0], 1.0f);
}

TEST(RowsGradientTest, TheSumOfOneIsNotCopied) {
  RowsGradientMerger merger(1);
  const std::vector<uint64_t> id = {3};
  const float value = 2;
  const RowsGradient one[] = {{id, &value}};
  EXPECT_EQ(merger.Sum(one).values, &value);
}

TEST(RowsGradientTest, ASelectionOfASumHasItsWantedRows) {
  RowsGradientMerger merger(2);
  const std::vector<uint64_t> a = {1, 5}, b = {2};
  const std::vector<float> of_a = {1, 2, 3, 4}, of_b = {10, 20};
  const RowsGradient both[] = {{a, of_a.data()}, {b, of_b.data()}};
  const RowsGradient sum = merger.Sum(both);
  const RowsGradient some = merger.Select(sum, {false, true, true});
  EXPECT_THAT(some.ids, ElementsAre(2, 5));
  EXPECT_THAT(Values(some, 2), ElementsAre(10, 20, 3, 4));
  EXPECT_THAT(merger.Select(some, {false, false}).ids, IsEmpty());
}

}  // namespace
}  // namespace tandem::pserver
