#include "trainer/session/evaluation/scores.h"

#include <algorithm>
#include <cmath>

#include "common/base/require.h"

namespace tandem::trainer {
namespace {

constexpr int64_t kShownClasses = 20;

using NamedValues = std::vector<std::pair<std::string, double>>;

// Counts of one class: samples of the class that were predicted correctly, samples predicted as
// this class, and samples labelled with this class.
struct OneClass {
  double hits = 0, predicted = 0, labelled = 0;

  bool occurs() const { return predicted + labelled > 0; }
  double precision() const { return predicted > 0 ? hits / predicted : 0; }
  double recall() const { return labelled > 0 ? hits / labelled : 0; }
  double f1() const { return occurs() ? 2 * hits / (predicted + labelled) : 0; }
};

// Returns the means over the classes that have a label or a prediction.
NamedValues Means(const std::vector<OneClass>& classes) {
  double count = 0, precision = 0, recall = 0, f1 = 0;
  for (const OneClass& one : classes) {
    if (!one.occurs()) continue;
    ++count;
    precision += one.precision();
    recall += one.recall();
    f1 += one.f1();
  }
  count = std::max(count, 1.0);
  return {{"precision", precision / count}, {"recall", recall / count}, {"f1", f1 / count}};
}

}  // namespace

ScoredOutput ScoredOutputOf(const graph::Program& program) {
  for (const ops::Op& op : program.ops) {
    ScoredOutput out;
    if (op.type == "softmax_with_cross_entropy") {
      out.kind = ScoreKind::kClasses;
    } else if (op.type == "sigmoid_cross_entropy") {
      out.kind = ScoreKind::kLabels;
    } else if (op.type == "square_error_cost" || op.type == "huber_loss" || op.type == "l1_loss") {
      out.kind = ScoreKind::kNumbers;
    } else {
      continue;
    }
    out.prediction = op.inputs[0][0];
    out.wanted = op.inputs[1][0];
    const graph::Var *logits = program.FindVar(out.prediction),
                     *wanted = program.FindVar(out.wanted);
    if (logits == nullptr || wanted == nullptr || wanted->kind != graph::VarKind::kData) return {};
    if (logits->desc.shape.rank() != 2) return {};
    out.width = logits->desc.shape[1];
    if (out.kind == ScoreKind::kClasses && out.width > Scores::kClassesMax) return {};
    return out;
  }
  return {};
}

Scores::Scores(ScoreKind kind, int64_t width) : kind_(kind), width_(width) {
  TD_REQUIRE(width > 0 || kind == ScoreKind::kNone);
  const auto count = static_cast<size_t>(width);
  if (kind == ScoreKind::kClasses) counts_.resize(count * count);
  if (kind == ScoreKind::kLabels) counts_.resize(4 * count);
  if (kind == ScoreKind::kNumbers) sums_.resize(count);
}

// Updates the means and spreads with one value at a time (Welford, "Note on a Method for
// Calculating Corrected Sums of Squares and Products", 1962).
void Scores::AddNumbers(const float* predictions, const float* targets, int64_t samples) {
  for (int64_t i = 0; i < samples; ++i) {
    const auto count = static_cast<double>(samples_ + i + 1);
    for (Sums& sums : sums_) {
      const double target = *targets++, error = *predictions++ - target;
      sums.squares += error * error;
      sums.absolute += std::abs(error);
      const double before = target - sums.mean;
      sums.mean += before / count;
      sums.spread += before * (target - sums.mean);
    }
  }
}

void Scores::Add(const float* predictions, const void* wanted, int64_t samples) {
  if (kind_ == ScoreKind::kNone) return;
  if (kind_ == ScoreKind::kNumbers) {
    AddNumbers(predictions, static_cast<const float*>(wanted), samples);
  } else {
    const auto* labels = static_cast<const int64_t*>(wanted);
    for (int64_t i = 0; i < samples; ++i, predictions += width_) {
      if (kind_ == ScoreKind::kClasses) {
        const int64_t label = *labels++;
        const int64_t best = std::max_element(predictions, predictions + width_) - predictions;
        if (label >= 0 && label < width_) ++counts_[static_cast<size_t>(label * width_ + best)];
        continue;
      }
      for (int64_t k = 0; k < width_; ++k) {
        const int64_t label = *labels++ == 1 ? 1 : 0, predicted = predictions[k] > 0 ? 1 : 0;
        ++counts_[static_cast<size_t>(4 * k + 2 * label + predicted)];
      }
    }
  }
  samples_ += samples;
}

// Source of the merged spread: Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm
// for Computing Sample Variances", 1979.
void Scores::Merge(const Scores& other) {
  if (other.samples_ == 0) return;
  if (samples_ == 0) {
    *this = other;
    return;
  }
  TD_REQUIRE(kind_ == other.kind_ && width_ == other.width_);
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  const auto mine = static_cast<double>(samples_), others = static_cast<double>(other.samples_);
  for (size_t i = 0; i < sums_.size(); ++i) {
    Sums& to = sums_[i];
    const Sums& from = other.sums_[i];
    const double apart = from.mean - to.mean;
    to.squares += from.squares;
    to.absolute += from.absolute;
    to.spread += from.spread + apart * apart * mine * others / (mine + others);
    to.mean += apart * others / (mine + others);
  }
  samples_ += other.samples_;
}

NamedValues Scores::ClassValues() const {
  const auto at = [this](int64_t i) {
    return static_cast<double>(counts_[static_cast<size_t>(i)]);
  };
  std::vector<OneClass> classes(static_cast<size_t>(width_));
  double right = 0;
  for (int64_t k = 0; k < width_; ++k) {
    OneClass& one = classes[static_cast<size_t>(k)];
    if (kind_ == ScoreKind::kLabels) {
      one = {at(4 * k + 3), at(4 * k + 1) + at(4 * k + 3), at(4 * k + 2) + at(4 * k + 3)};
      right += at(4 * k) + at(4 * k + 3);
      continue;
    }
    one.hits = at(k * width_ + k);
    for (int64_t c = 0; c < width_; ++c) {
      one.predicted += at(c * width_ + k);
      one.labelled += at(k * width_ + c);
    }
  }
  if (kind_ == ScoreKind::kClasses && width_ == 2) classes.erase(classes.begin());
  NamedValues values = Means(classes);
  if (kind_ == ScoreKind::kLabels) {
    values.emplace_back("accuracy", right / static_cast<double>(samples_ * width_));
  }
  return values;
}

NamedValues Scores::NumberValues() const {
  double squares = 0, absolute = 0, r2 = 0;
  for (const Sums& sums : sums_) {
    squares += sums.squares;
    absolute += sums.absolute;
    // If all targets are equal, r2 counts as 0, because there is no variance to explain.
    r2 += sums.spread > 0 ? 1 - sums.squares / sums.spread : 0;
  }
  const auto count = static_cast<double>(samples_ * width_);
  return {{"rmse", std::sqrt(squares / count)},
          {"mae", absolute / count},
          {"r2", r2 / static_cast<double>(width_)}};
}

NamedValues Scores::Values() const {
  if (samples_ == 0) return {};
  return kind_ == ScoreKind::kNumbers ? NumberValues() : ClassValues();
}

std::string Scores::Confusion() const {
  if (kind_ != ScoreKind::kClasses || width_ > kShownClasses || samples_ == 0) return "";
  std::string text = "confusion (a row for each label, a column for each predicted class):";
  for (int64_t label = 0; label < width_; ++label) {
    text += absl::StrFormat("%s%d:", label == 0 ? " " : "; ", label);
    for (int64_t c = 0; c < width_; ++c) {
      text += absl::StrFormat(" %d", counts_[static_cast<size_t>(label * width_ + c)]);
    }
  }
  return text;
}

}  // namespace tandem::trainer
