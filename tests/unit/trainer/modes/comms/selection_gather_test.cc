#include "trainer/modes/comms/selection_gather.h"

#include "gmock/gmock.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Words = std::vector<int32_t>;

// A fixture with two selections among 2 ranks: "a" has room for 2 elements, "b" for 1 element.
class SelectionGatherTest : public ::testing::Test {
 protected:
  static exec::CommTensor Of(const std::string& name, Words& words, int64_t rows) {
    const auto n = static_cast<int64_t>(words.size());
    TensorDesc desc = {DType::kI32, {n}};
    if (rows > 1) desc.shape = Shape{rows, n / rows};
    return {name, desc, words.data()};
  }
  SelectionGather Make(int rank) {
    return SelectionGather({Of("a", a_, 1), Of("b", b_, 1)},
                           {Of("all_a", all_a_, 2), Of("all_b", all_b_, 2)}, rank, 2);
  }

  Words a_ = {1, 7, 70, -1, -1}, b_ = {1, 8, 80};
  Words all_a_ = Words(10), all_b_ = Words(6);
};

TEST_F(SelectionGatherTest, SendsWhatIsUsed) {
  EXPECT_EQ(Make(0).words_max(), 8u);
  Words all(12);
  EXPECT_EQ(*Make(1).Pack(all.data()), 6u);
  EXPECT_THAT(all, ElementsAre(0, 0, 0, 0, 0, 0, 1, 7, 70, 1, 8, 80));
  // The ranks may divide their elements differently among the selections.
  const Words came = {2, 1, 2, 10, 20, 0, 1, 7, 70, 1, 8, 80};
  ASSERT_TRUE(Make(1).Unpack(came.data(), 6).ok());
  EXPECT_THAT(all_a_, ElementsAre(2, 1, 2, 10, 20, 1, 7, 70, 0, 0));
  EXPECT_THAT(all_b_, ElementsAre(0, 0, 0, 1, 8, 80));
}

TEST_F(SelectionGatherTest, RefusesWhatDoesNotFit) {
  const auto unpack = [this](const Words& words, size_t each) {
    return std::string(Make(0).Unpack(words.data(), each).message());
  };
  EXPECT_THAT(unpack({3, 0, 0, 0, 0, 0, 0, 0}, 4),
              HasSubstr("3 elements were selected, expected at most 2"));
  EXPECT_THAT(unpack({-1, 0, 0, 0, 0, 0, 0, 0}, 4), HasSubstr("all_a"));
  EXPECT_THAT(unpack({2, 0, 0, 0, 0, 0, 0, 0}, 4),
              HasSubstr("rank 0 sent an incomplete selection of \"a\""));
  EXPECT_THAT(unpack({1, 0, 0, 1, 0, 0}, 3), HasSubstr("rank 0 sent too few"));
  EXPECT_THAT(unpack({1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0}, 7),
              HasSubstr("rank 0 sent 1 words after its last selection"));
  a_[0] = 3;
  Words all(12);
  EXPECT_THAT(std::string(Make(0).Pack(all.data()).status().message()),
              HasSubstr("expected at most 2"));
}

}  // namespace
}  // namespace tandem::trainer
