#include "trainer/job/heter_config.h"

#include "common/strategy/origins.h"
#include "common/strategy/text_file.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"

namespace tandem::trainer {
namespace {

constexpr char kGuard[] = "strategy.a_sync_configs.heter_worker_device_guard";

}  // namespace

void CheckHeterWorkers(const JobConfig& config, int workers, int heter_workers,
                       const strategy::Origins& origins, strategy::Diagnostics* diagnostics) {
  const DistributedStrategy& s = config.strategy();
  const strategy::SourcePlace place = origins.Of(kGuard).place;
  const std::string& guard = s.a_sync_configs().heter_worker_device_guard();
  if (guard != "cpu" && guard != "gpu") {
    diagnostics->Error(
        place,
        absl::StrFormat("heter_worker_device_guard is \"%s\", expected cpu or gpu [TD1104]", guard),
        "use the value of op_device of the program's operators");
  }
  if (heter_workers == 0) {
    if (s.a_sync_configs().has_heter_worker_device_guard()) {
      diagnostics->Note(place,
                        "heter_worker_device_guard has no effect without heter workers (tandemrun "
                        "--heter_workers)");
    }
    return;
  }
  if (config.mode() != HYBRID) {
    diagnostics->Error(
        origins.Of("mode").place,
        absl::StrFormat("heter workers need mode hybrid, but the mode is %s [TD1107]",
                        Mode_Name(config.mode())),
        "run tandemrun --mode=hybrid");
  }
  const int64_t batch = GlobalBatch(config, workers);
  if (workers % heter_workers != 0) {
    diagnostics->Error(
        place, absl::StrFormat("%d trainers are not a multiple of %d heter workers [TD1104]",
                               workers, heter_workers));
  } else if (heter_workers < workers && batch % workers != 0) {
    diagnostics->Error(
        origins.Of("global_batch_size").place,
        absl::StrFormat("a batch of %d samples cannot be divided equally among %d trainers (%d "
                        "per heter worker) [TD1104]",
                        batch, workers, workers / heter_workers),
        absl::StrFormat("use %d samples", batch / workers * workers + workers));
  }
  const BuildStrategy& build = s.build_strategy();
  const struct {
    bool given;
    const char* path;
    const char* what;
  } rows[] = {
      {s.auto_(), "strategy.auto", "auto (it measures a part of the program separately)"},
      {s.amp(), "strategy.amp", "amp (no rank knows whether all gradients are finite)"},
      {s.dgc(), "strategy.dgc", "dgc"},
      {s.sharding(), "strategy.sharding", "sharding (both assign parameters to ranks)"},
      {build.reduce_strategy() == BuildStrategy::Reduce, "strategy.build_strategy.reduce_strategy",
       "reduce_strategy: Reduce (both assign parameters to ranks)"},
      {s.gradient_merge(), "strategy.gradient_merge", "gradient_merge"},
      {s.batch_merge_repeats() > 1, "strategy.batch_merge_repeats", "batch_merge_repeats above 1"},
      {s.sync_batch_norm(), "strategy.sync_batch_norm", "sync_batch_norm"},
      {s.nccl_comm_num() > 1, "strategy.nccl_comm_num", "nccl_comm_num above 1"},
      {s.use_hierarchical_allreduce(), "strategy.use_hierarchical_allreduce",
       "use_hierarchical_allreduce"},
      {s.allreduce_choice() == DistributedStrategy::ByModel, "strategy.allreduce_choice",
       "allreduce_choice: ByModel"},
      {PlacesOf(config) > 1, "strategy.execution_strategy.cpu_num", "cpu_num above 1"},
      {SamplesInStep(config), "strategy.runtime_flags.use_dali", "use_dali"},
      {config.data().remainder() == DataConfig::JOIN, "data.remainder", "remainder: JOIN"},
  };
  for (const auto& [given, path, what] : rows) {
    if (!given) continue;
    diagnostics->Error(
        origins.Of(path).place,
        absl::StrCat("heter workers are not implemented together with ", what, " [TD1109]"));
  }
}

}  // namespace tandem::trainer
