// Scores of predictions over a dataset: of classes, of several labels, of numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::trainer {

enum class ScoreKind : uint8_t {
  kNone,
  kClasses,  // softmax: the class of the largest logit
  kLabels,   // sigmoid: 1 where the logit is above 0
  kNumbers,
};

// The prediction of a program, by the operator of its loss.
struct ScoredOutput {
  ScoreKind kind = ScoreKind::kNone;
  std::string prediction;  // variable [batch, width]
  std::string wanted;      // data variable: the label or the target
  int64_t width = 0;
};
// kNone: the loss is none of the known ones, or its label is no data variable.
ScoredOutput ScoredOutputOf(const graph::Program& program);

// Counts in batches. Parts can be counted separately and merged. Not thread-safe.
class Scores {
 public:
  static constexpr int64_t kClassesMax = 1000;  // more classes have no scores

  Scores() = default;
  // `width`: classes, labels or numbers of one sample.
  Scores(ScoreKind kind, int64_t width);

  // `predictions`: f32 [samples, width]. `wanted`: i64 [samples, 1] (kClasses), i64 [samples,
  // width] (kLabels; 0 or 1) or f32 [samples, width].
  void Add(const float* predictions, const void* wanted, int64_t samples);
  // Adds the counts of later samples. REQUIRES: the same kind and width, or an empty `other`.
  void Merge(const Scores& other);

  // precision, recall and f1: of class 1 if there are two classes, else the means over the classes
  // or labels that occur; a quotient without a denominator counts as 0. kLabels also accuracy: the
  // share of right labels. kNumbers: rmse and mae over all values, and r2, the mean over the
  // numbers of a sample. Empty: kNone, or nothing was added.
  std::vector<std::pair<std::string, double>> Values() const;
  // kClasses: a line for each class with the number of samples by predicted class. "": another
  // kind, or more than 20 classes.
  std::string Confusion() const;

 private:
  // Sums of one number of the samples.
  struct Sums {
    double squares = 0, absolute = 0;  // sums of errors
    double mean = 0, spread = 0;       // targets: mean, sum of squared distances to it
  };

  void AddNumbers(const float* predictions, const float* targets, int64_t samples);
  std::vector<std::pair<std::string, double>> ClassValues() const;
  std::vector<std::pair<std::string, double>> NumberValues() const;

  ScoreKind kind_ = ScoreKind::kNone;
  int64_t width_ = 0, samples_ = 0;
  // kClasses: counts_[label * width + prediction]. kLabels: counts_[4 * k + 2 * label +
  // prediction].
  std::vector<int64_t> counts_;
  std::vector<Sums> sums_;
};

}  // namespace tandem::trainer
