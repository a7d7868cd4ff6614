// Scores of predictions over a dataset. The predictions are classes, several labels, or numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::trainer {

enum class ScoreKind : uint8_t {
  kNone,
  kClasses,  // softmax loss: the prediction is the class of the largest logit
  kLabels,   // sigmoid loss: the prediction is 1 if the logit is above 0, else 0
  kNumbers,
};

// The prediction of a program and the data variable with which it is compared.
struct ScoredOutput {
  ScoreKind kind = ScoreKind::kNone;
  std::string prediction;  // variable [batch, width] with logits or numbers
  std::string wanted;      // data variable with the label or the target
  int64_t width = 0;
};
// Returns the prediction that the first known loss operator reads. kNone: there is no known loss,
// the label of the loss is no data variable, the prediction does not have two dimensions, or the
// prediction has more than kClassesMax classes.
ScoredOutput ScoredOutputOf(const graph::Program& program);

// Accumulates the scores of several batches. Parts of the data can be counted separately and
// merged. Not thread-safe.
class Scores {
 public:
  static constexpr int64_t kClassesMax = 1000;  // programs with more classes have no scores

  Scores() = default;
  // `width`: number of classes (kClasses), or of labels or numbers of one sample.
  Scores(ScoreKind kind, int64_t width);

  // Adds a batch. `predictions`: f32 [samples, width]. `wanted`, kClasses: i64 [samples, 1];
  // kLabels: i64 [samples, width] of 0 or 1; kNumbers: f32 [samples, width].
  void Add(const float* predictions, const void* wanted, int64_t samples);
  // Adds the counts of `other`. REQUIRES: both objects have the same kind and width, or one is
  // empty.
  void Merge(const Scores& other);

  // Returns the scores by name. kClasses and kLabels: precision, recall and f1. For kClasses with
  // two classes these are the scores of class 1. For more classes and for kLabels they are the
  // means over the classes or labels that occur. A quotient with denominator 0 counts as 0. kLabels
  // also has accuracy, the share of correct labels. kNumbers: rmse and mae over all values, and r2,
  // the mean over the numbers of a sample. Empty: the kind is kNone, or no batch was added.
  std::vector<std::pair<std::string, double>> Values() const;
  // kClasses: returns the confusion matrix as one line of text. The matrix has, for each label, the
  // number of samples by predicted class. "": another kind, more than 20 classes, or no batch was
  // added.
  std::string Confusion() const;

 private:
  // kNumbers: sums over all samples, for one of the `width` numbers.
  struct Sums {
    double squares = 0, absolute = 0;  // sums of squared and of absolute errors
    double mean = 0, spread = 0;  // mean of targets; sum of the targets' squared distances to it
  };

  void AddNumbers(const float* predictions, const float* targets, int64_t samples);
  std::vector<std::pair<std::string, double>> ClassValues() const;
  std::vector<std::pair<std::string, double>> NumberValues() const;

  ScoreKind kind_ = ScoreKind::kNone;
  int64_t width_ = 0, samples_ = 0;
  // Numbers of samples. kClasses: counts_[label * width + prediction]. kLabels, for label number k:
  // counts_[4 * k + 2 * label + prediction].
  std::vector<int64_t> counts_;
  std::vector<Sums> sums_;
};

}  // namespace tandem::trainer
