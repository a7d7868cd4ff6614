#include "trainer/session/step_instrumentation.h"

#include "common/base/require.h"
#include "kernels/graph/distribute/micro_batches.h"
#include "proto/job.pb.h"

namespace tandem::trainer {

StatusOr<StepInstrumentation> StepInstrumentation::Make(const JobConfig& config, ProfilePlace place,
                                                        const Planned& planned) {
  const exec::Plan& plan = planned.plan;
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  const bool profile = !config.profile().dir().empty();
  // CheckJob rejects jobs with two of them.
  TD_REQUIRE(int{profile} + int{flags.check_nan_inf()} + int{flags.benchmark()} +
                 int{config.verify_replay() > 0} <=
             1);
  StepInstrumentation watch;
  if (flags.check_nan_inf()) {
    TD_ASSIGN_OR_RETURN(watch.nan_check_, exec::NanCheck::Make(plan, planned.backend));
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
  watch.replay_every_ = config.verify_replay();
  if (watch.replay_every_ > 0) {
    TD_ASSIGN_OR_RETURN(watch.replay_, exec::ReplayCheck::Make(planned.plan, planned.backend,
                                                               planned.scope, planned.options));
    watch.note_ = absl::StrFormat(
        "verify_replay: every %d steps, the rank computes %d of the %d operators of a step twice\n",
        watch.replay_every_, watch.replay_->compared(), plan.program().ops.size());
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

void StepInstrumentation::BeforeIteration(int64_t step, exec::Executor& executor) {
  if (replay_ == nullptr) return;
  const bool due = (step + 1) % replay_every_ == 0;
  if (due) replay_->Begin();
  executor.SetObserver(due ? replay_.get() : nullptr);
}

StatusOr<std::string> StepInstrumentation::After(int64_t step, bool last) {
  if (benchmark_ != nullptr) {
    return absl::StrFormat("benchmark of step %d:\n%s", step, benchmark_->TakeText());
  }
  return profile_ != nullptr ? profile_->After(step, last) : std::string();
}

}  // namespace tandem::trainer
