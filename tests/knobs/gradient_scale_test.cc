// gradient_scale_strategy: the sum of the ranks' gradients is their mean (CoeffNumDevice) or really
// the sum (One). With plain SGD on two ranks, One is CoeffNumDevice at twice the learning rate, bit
// for bit: a factor of two is exact.
#include "gtest/gtest.h"
#include "tests/support/process_test_util.h"

namespace tandem {
namespace {

class GradientScaleTest : public JobTest {
 protected:
  std::string Sha(const std::string& name, const std::string& strategy, const std::string& rate) {
    return RunJob(name, {"--mode=collective", "--nproc=2"},
                  {"--gradient_scale_strategy=" + strategy, "--optimizer.learning_rate=" + rate,
                   "--optimizer.type=sgd", "--steps_max=20"})
        .result.params_sha256;
  }
};

TEST_F(GradientScaleTest, OneIsTwiceTheMeanOnTwoRanks) {
  const std::string sum = Sha("one", "One", "0.0078125");
  EXPECT_EQ(sum, Sha("doubled", "CoeffNumDevice", "0.015625"));
  EXPECT_NE(sum, Sha("mean", "CoeffNumDevice", "0.0078125"));
}

}  // namespace
}  // namespace tandem
