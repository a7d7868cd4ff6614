#include "trainer/config/rank_return.h"

#include <utility>

#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"

namespace tandem::trainer {

Status CheckReturn(const JobConfig& config, const char* feature) {
  const DistributedStrategy& s = config.strategy();
  const std::pair<bool, const char*> rows[] = {
      {PlacesOf(config) > 1, "cpu_num above 1"},
      {s.build_strategy().reduce_strategy() == BuildStrategy::Reduce,
       "reduce_strategy Reduce (only one rank stores each optimizer state)"},
      {s.sharding(), "sharding (only one rank stores each parameter and its optimizer state)"},
      {s.localsgd() || s.adaptive_localsgd(),
       "localsgd (parameters of the ranks differ between two averages)"},
      {s.dgc(), "dgc (each rank keeps gradients that it has not sent)"},
      {s.nccl_comm_num() > 1, "nccl_comm_num above 1"},
      {s.allreduce_choice() == DistributedStrategy::ByModel,
       "allreduce_choice ByModel (the ranks would choose again after a restart)"},
      {s.pipeline(), "pipeline (only one rank stores the parameters of a section)"},
      {s.auto_(), "auto"},
      {config.mode() == HYBRID && s.a_sync(),
       "a_sync in mode hybrid (a repeated step would update table rows twice)"},
      {config.mode() == HYBRID && s.amp(),
       "amp in mode hybrid (trainers push rows after the check of the reduced gradients)"},
      {config.mode() == HYBRID && s.gradient_merge(),
       "gradient_merge in mode hybrid (table rows belong to the last one or two steps)"}};
  for (const auto& [given, conflict] : rows) {
    if (given)
      return Unimplemented("%s is not implemented together with %s [TD1109]", feature, conflict);
  }
  return OkStatus();
}

}  // namespace tandem::trainer
