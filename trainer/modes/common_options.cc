#include "trainer/modes/common_options.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/job.pb.h"
#include "trainer/config/optimizer_config.h"

namespace tandem::trainer {

CommonOptions CommonOptionsOf(const JobConfig& config, const RankInfo& rank,
                              const ModeSecrets& secrets, Agreement agreement) {
  const DistributedStrategy& strategy = config.strategy();
  CommonOptions options;
  options.job = config.name();
  options.rank = rank.rank;
  options.ranks = rank.size;
  options.secrets = secrets;
  options.agreement = std::move(agreement);
  options.optimizer = OptimizerSpecOf(config);
  options.seed = config.seed();
  options.start_timeout = std::chrono::milliseconds(config.start_timeout_ms());
  options.step_timeout = std::chrono::milliseconds(config.step_timeout_ms());
  if (config.mode() == PSERVER || config.mode() == HYBRID) {
    options.step_timeout =
        std::min<Duration>(options.step_timeout,
                           std::chrono::milliseconds(strategy.runtime_flags().rpc_deadline_ms()));
  }
  options.launcher = rank.launcher;
  options.fuse_all_reduce = strategy.fuse_all_reduce_ops();
  options.group_rule = {strategy.fuse_grad_size_in_mb(), strategy.fuse_grad_size_in_tflops(),
                        strategy.last_comm_group_size_mb()};
  options.half_communication = strategy.fp16_allreduce();
  return options;
}

}  // namespace tandem::trainer
