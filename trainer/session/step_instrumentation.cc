#include "trainer/session/step_instrumentation.h"

#include "common/base/require.h"
#include "kernels/graph/distribute/micro_batches.h"
#include "proto/job.pb.h"

namespace tandem::trainer {

StatusOr<StepInstrumentation> StepInstrumentation::Make(const JobConfig& config, ProfilePlace place,
                                                        const exec::Plan& plan,
                                                        const exec::Backend& backend) {
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  const bool profile = !config.profile().dir().empty();
  // CheckJob rejects jobs with two of them.
  TD_REQUIRE(int{profile} + int{flags.check_nan_inf()} + int{flags.benchmark()} <= 1);
  StepInstrumentation watch;
  if (flags.check_nan_inf()) {
    TD_ASSIGN_OR_RETURN(watch.nan_check_, exec::NanCheck::Make(plan, backend));
  }
  if (flags.benchmark()) watch.benchmark_ = std::make_unique<OpBenchmark>(plan);
  if (config.strategy().pipeline()) {
    place.bubble = graph::BubbleShare(config.model().sections(),
                                      config.strategy().pipeline_configs().micro_batch());
  }
  if (profile) {
    TD_ASSIGN_OR_RETURN(watch.profile_,
                        StepProfile::Make(config.profile(), std::move(place), plan));
  }
  return watch;
}

void StepInstrumentation::Observe(int64_t step, exec::Executor& executor) {
  profiler_ = profile_ ? profile_->At(step) : nullptr;
  exec::ExecObserver* observer = nan_check_.get();
  if (profiler_ != nullptr) observer = profiler_;
  if (benchmark_ != nullptr) observer = benchmark_.get();
  executor.SetObserver(observer);
}

StatusOr<std::string> StepInstrumentation::After(int64_t step, bool last) {
  if (benchmark_ != nullptr) {
    return absl::StrFormat("benchmark of step %d:\n%s", step, benchmark_->TakeText());
  }
  return profile_ != nullptr ? profile_->After(step, last) : std::string();
}

}  // namespace tandem::trainer
