// The loss and the metric of the last steps of a job.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "trainer/monitoring/progress.h"

namespace tandem::trainer {

// A sliding window over the steps of one rank. The window has ten parts and moves by one part. The
// AUC of the window is exact, not a mean of AUCs: operator auc counts labels by bucket of
// probability from batch to batch, and the counts of the window are a difference. Not thread-safe.
class TrainingWindow {
 public:
  static constexpr int64_t kParts = 10;

  // Counts of operator auc since the begin of the job: of label 1, then of label 0. Both parts have
  // the same size. Empty: the metric has no counts.
  using Counts = std::vector<int64_t>;

  // `steps`: length of the window, a multiple of kParts; 0: there is no window.
  explicit TrainingWindow(int64_t steps);

  bool enabled() const { return part_steps_ > 0; }
  // Forgets all steps. `counts`: counts before the next step.
  void Begin(Counts counts);
  // Adds the loss and the metric of a step. Returns whether the step ends a part, so that the
  // caller must call EndPart.
  bool Add(double loss, double metric);
  // `counts`: counts after the last step.
  void EndPart(Counts counts);
  // Returns the values of the parts that have ended, at most kParts. steps = 0: no part has ended.
  const WindowReport& report() const { return report_; }

 private:
  struct Part {
    double loss = 0, metric = 0;  // sums over the steps
    Counts after;                 // counts at the end of the part
  };

  const int64_t part_steps_;
  int64_t steps_ = 0;  // steps of the open part
  Part open_;
  std::deque<Part> parts_;
  Counts before_;  // counts at the begin of the first part
  WindowReport report_;
};

// Returns the area under the ROC curve of counts by bucket of probability (kernels/ops/reduce), as
// operator auc computes it; 0.5: one of the labels does not occur.
double AucOf(const TrainingWindow::Counts& counts);

}  // namespace tandem::trainer
