#include "trainer/session/training_window.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::trainer {

double AucOf(const TrainingWindow::Counts& counts) {
  TD_REQUIRE(counts.size() % 2 == 0);
  const size_t buckets = counts.size() / 2;
  double positive = 0, negative = 0, area = 0;
  for (size_t i = buckets; i > 0; --i) {
    const auto more_positive = static_cast<double>(counts[i - 1]);
    const auto more_negative = static_cast<double>(counts[buckets + i - 1]);
    area += more_negative * (positive + more_positive / 2);
    positive += more_positive;
    negative += more_negative;
  }
  return positive > 0 && negative > 0 ? area / (positive * negative) : 0.5;
}

TrainingWindow::TrainingWindow(int64_t steps) : part_steps_(steps / kParts) {
  TD_REQUIRE(steps >= 0 && steps % kParts == 0);
}

void TrainingWindow::Begin(Counts counts) {
  parts_.clear();
  open_ = {};
  steps_ = 0;
  report_ = {};
  before_ = std::move(counts);
}

bool TrainingWindow::Add(double loss, double metric) {
  TD_REQUIRE(enabled() && steps_ < part_steps_);
  open_.loss += loss;
  open_.metric += metric;
  return ++steps_ == part_steps_;
}

void TrainingWindow::EndPart(Counts counts) {
  TD_REQUIRE(steps_ == part_steps_ && counts.size() == before_.size());
  open_.after = std::move(counts);
  parts_.push_back(std::exchange(open_, {}));
  steps_ = 0;
  if (parts_.size() > kParts) {
    before_ = std::move(parts_.front().after);
    parts_.pop_front();
  }
  report_ = {.steps = static_cast<int64_t>(parts_.size()) * part_steps_};
  for (const Part& part : parts_) {
    report_.loss += part.loss / static_cast<double>(report_.steps);
    report_.metric += part.metric / static_cast<double>(report_.steps);
  }
  Counts difference = parts_.back().after;
  if (difference.empty()) return;
  for (size_t i = 0; i < difference.size(); ++i) difference[i] -= before_[i];
  report_.metric = AucOf(difference);
}

}  // namespace tandem::trainer
