#include "trainer/monitoring/run_totals.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::trainer {

void RunTotals::Begin(int64_t first_step, int64_t steps_total, int64_t samples_per_step, Time now) {
  TD_REQUIRE(first_step >= 0);
  steps_total_ = steps_total;
  samples_per_step_ = samples_per_step;
  steps_done_ = first_step;
  begin_ = now;
}

void RunTotals::AddRun(int64_t last, int64_t steps, double seconds) {
  TD_REQUIRE(steps > 0);
  steps_done_ = last + 1;
  steps_here_ += steps;
  seconds_ += seconds;
}

RunTotals::Added RunTotals::SetTimes(double data_wait, const exec::CommTimes& comm) {
  const Added added{.data_wait = std::max(0.0, data_wait - data_wait_),
                    .comm = {.on_way = std::max(0.0, comm.on_way - comm_.on_way),
                             .exposed = std::max(0.0, comm.exposed - comm_.exposed)}};
  data_wait_ = data_wait;
  comm_ = comm;
  return added;
}

double RunTotals::SamplesPerSecond() const {
  return seconds_ > 0 ? static_cast<double>(steps_here_ * samples_per_step_) / seconds_ : 0;
}

double RunTotals::DataWaitShare() const {
  const double busy = seconds_ + data_wait_;
  return busy > 0 ? data_wait_ / busy : -1;
}

std::string RunTotals::Remaining(Time now) const {
  if (steps_total_ == 0) return "trains until it is stopped";
  if (steps_here_ == 0) return "unknown";
  const double per_step = Seconds(now - begin_) / static_cast<double>(steps_here_);
  const auto left =
      static_cast<int64_t>(per_step * static_cast<double>(steps_total_ - steps_done_));
  return absl::StrFormat("%d:%02d:%02d", left / 3600, left / 60 % 60, left % 60);
}

}  // namespace tandem::trainer
