#include "trainer/session/evaluation/scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "trainer/models/models.h"

namespace tandem::trainer {
namespace {

std::map<std::string, double> ValuesOf(const Scores& scores) {
  const auto values = scores.Values();
  return {values.begin(), values.end()};
}

// Returns logits for rows of `width` classes. The largest logit of row i is at best[i].
std::vector<float> Logits(const std::vector<int>& best, size_t width) {
  std::vector<float> out(best.size() * width);
  for (size_t i = 0; i < best.size(); ++i) out[i * width + static_cast<size_t>(best[i])] = 1;
  return out;
}

// The expected values are those of scikit-learn's precision_recall_fscore_support(average="macro").
TEST(Scores, ClassesAreMeansOverThoseThatOccur) {
  Scores scores(ScoreKind::kClasses, 4);
  const std::vector<int64_t> labels = {0, 0, 1, 1, 2};
  scores.Add(Logits({0, 1, 1, 1, 0}, 4).data(), labels.data(), 5);
  auto values = ValuesOf(scores);
  EXPECT_NEAR(values["precision"], (0.5 + 2.0 / 3 + 0) / 3, 1e-12);
  EXPECT_NEAR(values["recall"], (0.5 + 1 + 0) / 3, 1e-12);
  EXPECT_NEAR(values["f1"], (0.5 + 0.8 + 0) / 3, 1e-12);
  EXPECT_EQ(scores.Confusion(),
            "confusion (a row for each label, a column for each predicted class): 0: 1 1 0 0; 1: 0 "
            "2 0 0; 2: 1 0 0 0; 3: 0 0 0 0");
}

TEST(Scores, TwoClassesAreThoseOfClass1) {
  Scores scores(ScoreKind::kClasses, 2);
  const std::vector<int64_t> labels = {0, 0, 1, 1, 1};
  scores.Add(Logits({0, 1, 1, 1, 0}, 2).data(), labels.data(), 5);
  auto values = ValuesOf(scores);
  EXPECT_NEAR(values["precision"], 2.0 / 3, 1e-12);
  EXPECT_NEAR(values["recall"], 2.0 / 3, 1e-12);
}

TEST(Scores, LabelsAreMeansOverLabels) {
  Scores scores(ScoreKind::kLabels, 2);
  const std::vector<int64_t> labels = {1, 0, 1, 1, 0, 1};
  const std::vector<float> logits = {2, 1, -1, 3, -1, 2};
  scores.Add(logits.data(), labels.data(), 3);
  auto values = ValuesOf(scores);
  EXPECT_NEAR(values["precision"], (1 + 2.0 / 3) / 2, 1e-12);
  EXPECT_NEAR(values["recall"], (0.5 + 1) / 2, 1e-12);
  EXPECT_NEAR(values["accuracy"], 4.0 / 6, 1e-12);
  EXPECT_EQ(scores.Confusion(), "");
}

TEST(Scores, Numbers) {
  Scores scores(ScoreKind::kNumbers, 1);
  const std::vector<float> targets = {1, 2, 3, 6}, predictions = {1, 2, 4, 4};
  scores.Add(predictions.data(), targets.data(), 4);
  auto values = ValuesOf(scores);
  EXPECT_NEAR(values["rmse"], std::sqrt(5.0 / 4), 1e-12);
  EXPECT_NEAR(values["mae"], 0.75, 1e-12);
  EXPECT_NEAR(values["r2"], 1 - 5.0 / 14, 1e-12);
}

TEST(Scores, MergedPartsEqualTheWhole) {
  std::vector<float> targets, predictions;
  for (int i = 0; i < 24; ++i) {
    targets.push_back(1000.0f + static_cast<float>(i * i % 17));
    predictions.push_back(1000.0f + static_cast<float>(i % 5));
  }
  Scores whole(ScoreKind::kNumbers, 2), merged;
  whole.Add(predictions.data(), targets.data(), 12);
  for (const int64_t begin : {0, 4, 10}) {
    Scores part(ScoreKind::kNumbers, 2);
    const int64_t end = begin == 0 ? 4 : begin == 4 ? 10 : 12;
    part.Add(predictions.data() + 2 * begin, targets.data() + 2 * begin, end - begin);
    merged.Merge(part);
  }
  for (const auto& [name, value] : whole.Values()) {
    EXPECT_NEAR(ValuesOf(merged)[name], value, 1e-9) << name;
  }
  EXPECT_THAT(Scores().Values(), testing::IsEmpty());
}

TEST(ScoredOutput, IsThatOfTheLoss) {
  const auto numbers =
      BuildModel("mlp", {{"features", "3"}, {"loss", "huber"}, {"outputs", "2"}}, 4);
  ASSERT_EQ(numbers.status(), OkStatus());
  const ScoredOutput output = ScoredOutputOf(*numbers);
  EXPECT_EQ(output.kind, ScoreKind::kNumbers);
  EXPECT_EQ(output.wanted, "target");
  EXPECT_EQ(output.width, 2);
  const auto classes =
      BuildModel("mlp", {{"features", "3"}, {"classes", "7"}, {"weighted", "1"}}, 4);
  ASSERT_EQ(classes.status(), OkStatus());
  EXPECT_EQ(ScoredOutputOf(*classes).kind, ScoreKind::kClasses);
  EXPECT_EQ(ScoredOutputOf(*classes).width, 7);
  EXPECT_EQ(ScoredOutputOf(graph::Program()).kind, ScoreKind::kNone);
}

}  // namespace
}  // namespace tandem::trainer
