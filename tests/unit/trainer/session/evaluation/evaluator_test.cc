#include "trainer/session/evaluation/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/base/rng.h"
#include "kernels/graph/builder.h"

namespace tandem::trainer {
namespace {

using testing::Each;

// A dataset whose sample i has a random number x and a label. Label 1 is more frequent for larger
// x.
class Scores final : public reader::Dataset {
 public:
  explicit Scores(uint32_t size) : size_(size) {}
  uint32_t size() const override { return size_; }
  const std::vector<reader::SampleField>& fields() const override { return fields_; }
  Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const override {
    for (size_t i = 0; i < ids.size(); ++i) {
      static_cast<float*>(out[0])[i] = X(ids[i]);
      static_cast<int64_t*>(out[1])[i] = Label(ids[i]);
    }
    return OkStatus();
  }
  std::string Describe() const override { return "scores"; }

  static float X(uint32_t id) { return 2.0f * NormalAt(1, id); }
  static int64_t Label(uint32_t id) { return X(id) + 2.0f * NormalAt(2, id) > 0.0f ? 1 : 0; }

 private:
  const uint32_t size_;
  const std::vector<reader::SampleField> fields_ = {{"x", {DType::kF32, {1}}},
                                                    {"label", {DType::kI64, {1}}}};
};

// Returns the expected area under the curve: the fraction of pairs with different labels that are
// in the right order.
double AreaOf(uint32_t size) {
  double right = 0, pairs = 0;
  for (uint32_t i = 0; i < size; ++i) {
    for (uint32_t j = 0; j < size; ++j) {
      if (Scores::Label(i) != 1 || Scores::Label(j) != 0) continue;
      right += Scores::X(i) > Scores::X(j) ? 1 : 0;
      pairs += 1;
    }
  }
  return right / pairs;
}

// The evaluation has several batches, the last of which is smaller. The metric of the evaluation
// must not include the counts of training. After the evaluation, the counts of training must be
// restored.
TEST(Evaluator, AMetricThatRunsOverBatchesIsThatOfTheDataAlone) {
  constexpr uint32_t kSize = 1200;
  graph::ProgramBuilder b("auc", 4);
  const auto x = b.Data("x", DType::kF32, {1});
  const auto label = b.Data("label", DType::kI64, {1});
  b.Auc(b.SigmoidLoss(x, label), label);
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(MetricName(*program), "auc");

  CpuDevice device;
  exec::Scope scope(device);
  ASSERT_TRUE(exec::Initialize(*program, 1, scope).ok());
  const auto positive = scope.Find("auc_0@positive")->span<int64_t>();
  std::fill(positive.begin(), positive.end(), 5);
  const Scores data(kSize);
  const exec::Backend backend = exec::Backend::Cpu();
  Evaluator evaluator(*program, backend, scope, &data, exec::PlanOptions{});
  for (int run = 0; run < 2; ++run) {
    const auto evaluation = evaluator.Run();
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_NEAR(evaluation->metric, AreaOf(kSize), 1e-3);
    EXPECT_EQ(evaluation->samples, kSize);
    EXPECT_THAT(positive, Each(5));
    EXPECT_THAT(scope.Find("auc_0@negative")->span<int64_t>(), Each(0));
  }
}

// A metric without state is averaged over the samples, not over the batches. Batches of different
// sizes show the difference.
TEST(Evaluator, AMetricOfEachBatchIsAveragedOverSamples) {
  constexpr uint32_t kSize = 700;
  graph::ProgramBuilder b("accuracy", 4);
  const auto x = b.Data("x", DType::kF32, {1});
  const auto label = b.Data("label", DType::kI64, {1});
  b.SigmoidLoss(x, label);
  b.Accuracy(x, label);  // one output: the prediction is right if the label is 0
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  CpuDevice device;
  exec::Scope scope(device);
  const Scores data(kSize);
  const exec::Backend backend = exec::Backend::Cpu();
  double zeros = 0;
  for (uint32_t i = 0; i < kSize; ++i) zeros += Scores::Label(i) == 0 ? 1 : 0;
  const auto evaluation = Evaluator(*program, backend, scope, &data, exec::PlanOptions{}).Run();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_NEAR(evaluation->metric, zeros / kSize, 1e-6);
  EXPECT_EQ(MetricName(*program), "accuracy");
}

// Paddle calls this feature share_vars_from. An evaluation must use the current parameters, and
// each variable must exist only once.
TEST(Evaluator, SharesTheVariablesOfTraining) {
  graph::ProgramBuilder b("shared", 4);
  const auto x = b.Data("x", DType::kF32, {1});
  b.SigmoidLoss(b.Fc(x, 1), b.Data("label", DType::kI64, {1}));
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  CpuDevice device;
  exec::Scope scope(device);
  ASSERT_TRUE(exec::Initialize(*program, 1, scope).ok());
  const size_t variables = scope.tensors().size();
  const Scores data(700);
  const exec::Backend backend = exec::Backend::Cpu();
  Evaluator evaluator(*program, backend, scope, &data, exec::PlanOptions{});
  const void* const weight = scope.Find("fc_0.w")->data();
  const double before = evaluator.Run()->loss;
  EXPECT_EQ(evaluator.Run()->loss, before);
  scope.Find("fc_0.w")->span<float>()[0] += 1;
  EXPECT_NE(evaluator.Run()->loss, before);
  EXPECT_EQ(scope.tensors().size(), variables);
  EXPECT_EQ(scope.Find("fc_0.w")->data(), weight);
}

// Three batches are divided over up to five replicas, so some replicas have no batch.
TEST(Evaluator, PlacesPredictIndependentlyWithTheBitsOfOne) {
  graph::ProgramBuilder b("places", 4);
  const auto x = b.Data("x", DType::kF32, {1});
  const auto label = b.Data("label", DType::kI64, {1});
  const auto logit = b.Fc(x, 1);
  b.SigmoidLoss(logit, label);
  b.Accuracy(logit, label);
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();
  CpuDevice device;
  exec::Scope scope(device);
  ASSERT_TRUE(exec::Initialize(*program, 1, scope).ok());
  const Scores data(1234);
  const exec::Backend backend = exec::Backend::Cpu();
  const auto one = Evaluator(*program, backend, scope, &data, exec::PlanOptions{}).Run();
  ASSERT_TRUE(one.ok()) << one.status();
  for (const int places : {2, 3, 5}) {
    Evaluator evaluator(*program, backend, scope, &data, exec::PlanOptions{}, nullptr, places);
    for (int run = 0; run < 3; ++run) {
      const auto several = evaluator.Run();
      ASSERT_TRUE(several.ok()) << several.status();
      EXPECT_EQ(several->loss, one->loss) << places;
      EXPECT_EQ(several->metric, one->metric) << places;
      EXPECT_EQ(several->samples, 1234);
    }
  }
}

// In an evaluation, batch_norm must use its running statistics and must not change them.
TEST(Evaluator, TakesTheRunningStatistics) {
  graph::ProgramBuilder b("norm", 4);
  const auto x = b.BatchNorm(b.Data("x", DType::kF32, {1}));
  b.SigmoidLoss(x, b.Data("label", DType::kI64, {1}));
  const auto program = b.Finish();
  ASSERT_TRUE(program.ok()) << program.status();

  CpuDevice device;
  exec::Scope scope(device);
  ASSERT_TRUE(exec::Initialize(*program, 1, scope).ok());
  const auto mean = scope.Find("batch_norm_0.mean")->span<float>();
  const auto variance = scope.Find("batch_norm_0.variance")->span<float>();
  EXPECT_THAT(mean, Each(0.0f));
  EXPECT_THAT(variance, Each(1.0f));
  mean[0] = 0.5f;
  variance[0] = 4.0f;
  constexpr uint32_t kSize = 700;
  const Scores data(kSize);
  const exec::Backend backend = exec::Backend::Cpu();
  Evaluator evaluator(*program, backend, scope, &data, exec::PlanOptions{});
  const auto evaluation = evaluator.Run();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  double loss = 0;
  for (uint32_t i = 0; i < kSize; ++i) {
    const double logit = (Scores::X(i) - 0.5) / std::sqrt(4.0 + 1e-5);
    loss += std::log1p(std::exp(Scores::Label(i) == 1 ? -logit : logit)) / kSize;
  }
  EXPECT_NEAR(evaluation->loss, loss, 1e-5);
  EXPECT_THAT(mean, Each(0.5f));
  EXPECT_THAT(variance, Each(4.0f));
}

}  // namespace
}  // namespace tandem::trainer
