#include "trainer/ps/fragment_values.h"

#include <cmath>

#include "gmock/gmock.h"

namespace tandem::trainer {
namespace {

using ::testing::ElementsAre;

class FragmentValuesTest : public testing::Test {
 protected:
  // Pulls `values`, of which each element may be of another server.
  bool Pull(std::vector<float> values) {
    std::ranges::copy(values, fragment_.Pulled()[0].data);
    return fragment_.Take();
  }
  std::vector<float> Gradients() {
    const float* const values = fragment_.PseudoGradients()[0].data;
    return {values, values + 2};
  }

  std::vector<float> w_ = {1, 2};
  FragmentValues fragment_{{{"w", w_.data(), 2}}};
};

TEST_F(FragmentValuesTest, APseudoGradientHasTheMovesSinceTheLastOne) {
  w_ = {4, 1};
  EXPECT_THAT(Gradients(), ElementsAre(-3, 1));
  w_ = {5, 1};
  EXPECT_THAT(Gradients(), ElementsAre(-1, 0));
}

TEST_F(FragmentValuesTest, OnlyServersThatHaveMadeAStepChangeTheirValues) {
  w_ = {4, 4};
  Gradients();
  w_ = {5, 6};
  EXPECT_TRUE(Pull({3, 2})) << "the server of the second element has made no step";
  EXPECT_THAT(w_, ElementsAre(3 + 1, 6)) << "the moves since the push stay";
  EXPECT_THAT(Gradients(), ElementsAre(-1, -2));
  EXPECT_FALSE(Pull({3, 2}));
  EXPECT_THAT(w_, ElementsAre(4, 6));
  EXPECT_TRUE(Pull({3, 9}));
  EXPECT_THAT(w_, ElementsAre(4, 9));
}

TEST_F(FragmentValuesTest, TheServersValuesReplaceAValueThatIsNotFinite) {
  w_ = {NAN, 3};
  Gradients();
  EXPECT_TRUE(Pull({7, 8}));
  EXPECT_THAT(w_, ElementsAre(7, 8));
}

TEST_F(FragmentValuesTest, TakeAllSetsAllValues) {
  w_ = {4, 4};
  std::ranges::copy(std::vector<float>{1, 9}, fragment_.Pulled()[0].data);
  fragment_.TakeAll();
  EXPECT_THAT(w_, ElementsAre(1, 9));
  EXPECT_THAT(Gradients(), ElementsAre(0, 0));
}

}  // namespace
}  // namespace tandem::trainer
