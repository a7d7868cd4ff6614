// gradient_scale_strategy: CoeffNumDevice averages the gradients of the ranks, One sums them. With
// plain SGD on two ranks, One has the bits of CoeffNumDevice at twice the learning rate, because
// multiplication by two is exact. With Customized the job provides the gradient of the loss.
#include "gmock/gmock.h"
#include "tests/support/process_test_util.h"

namespace tandem::trainer {
namespace {

class GradientScaleTest : public JobTest {
 protected:
  std::string Sha(const std::string& name, const std::string& strategy, const std::string& rate,
                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--gradient_scale_strategy=" + strategy,
                                     "--optimizer.learning_rate=" + rate, "--optimizer.type=sgd",
                                     "--steps_max=20"};
    args.insert(args.end(), more.begin(), more.end());
    return RunJob(name, {"--mode=collective", "--nproc=2"}, args).result.params_sha256;
  }
};

TEST_F(GradientScaleTest, OneIsTwiceTheMeanOnTwoRanks) {
  const std::string sum = Sha("one", "One", "0.0078125");
  EXPECT_EQ(sum, Sha("doubled", "CoeffNumDevice", "0.015625"));
  EXPECT_NE(sum, Sha("mean", "CoeffNumDevice", "0.0078125"));
}

TEST_F(GradientScaleTest, CustomizedIsTheJobsOwn) {
  const std::string mean = Sha("mean", "CoeffNumDevice", "0.0078125");
  EXPECT_EQ(Sha("half", "Customized", "0.0078125", {"--loss_gradient=0.5"}), mean);
  EXPECT_EQ(Sha("quarter", "Customized", "0.015625", {"--loss_gradient=0.25"}), mean);
  EXPECT_NE(Sha("other", "Customized", "0.0078125", {"--loss_gradient=0.75"}), mean);
}

TEST_F(GradientScaleTest, CustomizedAndLossGradientGoTogether) {
  const auto none = StartJob("none", {"--mode=local"}, {"--gradient_scale_strategy=Customized"});
  EXPECT_EQ(none->Wait(), 2);
  EXPECT_THAT(
      none->Output(),
      testing::HasSubstr("gradient_scale_strategy Customized needs the field loss_gradient"));
  const auto alone = StartJob("alone", {"--mode=local"}, {"--loss_gradient=2"});
  EXPECT_EQ(alone->Wait(), 2);
  EXPECT_THAT(alone->Output(),
              testing::HasSubstr("loss_gradient has no effect without gradient_scale_strategy"));
}

}  // namespace
}  // namespace tandem::trainer
