#include "trainer/session/session_parts.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "proto/job.pb.h"

namespace tandem::trainer {

int64_t RunLengthOf(const JobConfig& config, int64_t step, int64_t steps_total,
                    int64_t steps_per_epoch) {
  const int64_t save_every = config.checkpoint().every_steps();
  int64_t length = config.strategy().execution_strategy().num_iteration_per_run();
  length = std::min({length, steps_total - step, steps_per_epoch - step % steps_per_epoch});
  return save_every > 0 ? std::min(length, save_every - step % save_every) : length;
}

StatusOr<StepRollback> ReturnPointOf(const JobConfig& config, const Program& program, Scope& scope,
                                     Device& host) {
  const DistributedStrategy& strategy = config.strategy();
  const int64_t period =
      strategy.gradient_merge() ? strategy.gradient_merge_configs().k_steps() : 1;
  return StepRollback::Make(program, scope, period, period * strategy.batch_merge_repeats(), host);
}

StatusJob StatusJobOf(const JobConfig& config, const SessionOptions& options,
                      const Program& program, const std::string& metric, int64_t next,
                      int64_t steps_total) {
  return {.name = config.name(),
          .mode = Mode_Name(config.mode()),
          .model = config.model().has_zoo() ? config.model().zoo() : config.model().program(),
          .metric = metric,
          .rank = options.rank.rank,
          .ranks = options.rank.size,
          .first_step = next,
          .steps_total = steps_total,
          .samples_per_step = options.global_batch,
          .program = &program};
}

std::string KeepSearched(ConvSearch& search, int64_t* kept) {
  if (search.measured() == *kept) return "";
  *kept = search.measured();
  std::string notes;
  const Status saved = search.Save();
  if (!saved.ok()) notes = "warning: " + ToString(saved) + "\n";
  return notes + absl::StrFormat("convolutions: %d measured, %d known\n", *kept, search.found());
}

}  // namespace tandem::trainer
