#include "trainer/session/plan_options.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "kernels/exec/graph_pieces.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"

namespace tandem::trainer {
namespace {

bool Sequential(const DistributedStrategy& strategy) {
  return strategy.build_strategy().enable_sequential_execution() || strategy.recompute();
}

// Returns the number of threads that run operators, per replica. A setting of 0 means Paddle's
// default. With sequential execution, one thread runs the operators, which never overlap; a kernel
// then uses all threads of the replica.
int NumThreads(const DistributedStrategy& strategy, PlaceKind place) {
  if (Sequential(strategy)) return 1;
  const int asked = strategy.execution_strategy().num_threads();
  if (asked > 0) return asked;
  return place == PlaceKind::kCpu ? 2 : 4;
}

}  // namespace

exec::MemoryOptions MemoryOptionsOf(const DistributedStrategy& strategy) {
  const double eager_gb = strategy.runtime_flags().eager_delete_tensor_gb();
  const BuildStrategy& build = strategy.build_strategy();
  const bool freed_late = build.memory_optimize() == BuildStrategy::Auto && eager_gb < 0;
  return {.inplace = build.enable_inplace(),
          .reuse = build.memory_optimize() == BuildStrategy::On || freed_late,
          .eager_delete_bytes = static_cast<int64_t>(eager_gb * static_cast<double>(1 << 30))};
}

std::string PlanReport(const DistributedStrategy& strategy, const exec::Plan& plan) {
  const BuildStrategy& build = strategy.build_strategy();
  std::string text;
  if (build.has_enable_inplace() || build.has_memory_optimize() ||
      strategy.runtime_flags().has_eager_delete_tensor_gb()) {
    text += "memory: " + exec::ToText(plan.memory()) + "\n";
  }
  const ExecutionStrategy& execution = strategy.execution_strategy();
  if (execution.has_num_iteration_per_drop_scope() ||
      strategy.runtime_flags().has_local_exe_sub_scope_limit()) {
    size_t bytes = 0;
    for (const auto& pages : plan.droppable()) bytes += pages.size();
    text +=
        absl::StrFormat("temporaries: %.1f MB, dropped after ", static_cast<double>(bytes) / 1e6);
    if (plan.drops_each_run()) {
      text += "every run, because they exceed local_exe_sub_scope_limit\n";
    } else if (execution.has_num_iteration_per_drop_scope()) {
      text += absl::StrFormat("every %d runs\n", execution.num_iteration_per_drop_scope());
    } else {
      text += "no run, because they are below local_exe_sub_scope_limit\n";
    }
  }
  if (execution.has_num_threads() || build.has_enable_sequential_execution()) {
    text += plan.num_threads() > 1
                ? absl::StrFormat("schedule: by data dependencies, num_threads %d\n",
                                  plan.num_threads())
                : "schedule: the order of the program\n";
  }
  if (execution.cuda_graph()) {
    text += "cuda_graph: " +
            (plan.recorder() == nullptr ? "not available on the CPU" : exec::PiecesText(plan)) +
            "\n";
  }
  if (strategy.has_conv_workspace_size_limit()) {
    text += absl::StrFormat("scratch memory: %.1f MB, conv_workspace_size_limit %d MB\n",
                            static_cast<double>(plan.scratch_bytes()) / 1e6,
                            strategy.conv_workspace_size_limit());
  }
  if (strategy.runtime_flags().has_cpu_deterministic()) {
    text += "cpu_deterministic: no effect, because sums over places always have one order\n";
  }
  return text;
}

int ThreadsOf(const JobConfig& config, const RankInfo& rank) {
  TD_REQUIRE(rank.local_size >= 0);
  if (config.threads() > 0) return config.threads();
  // Deterministic jobs use one thread, because the results of some kernels depend on the number of
  // threads.
  if (config.strategy().deterministic()) return 1;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, rank.local_size));
}

StatusOr<exec::PlanOptions> PlanOptionsOf(const JobConfig& config, int threads) {
  const DistributedStrategy& strategy = config.strategy();
  exec::PlanOptions options;
  options.threads = threads;
  if (!strategy.runtime_flags().use_mkldnn()) options.disable_impls = {"onednn"};
  for (const std::string& type : strategy.build_strategy().mkldnn_enabled_op_types()) {
    TD_RETURN_IF_ERROR(Annotate(ops::GetOp(type).status(), "mkldnn_enabled_op_types"));
    options.onednn_ops.push_back(type);
  }
  options.memory = MemoryOptionsOf(strategy);
  options.settings.conv.scratch_max = static_cast<size_t>(strategy.conv_workspace_size_limit())
                                      << 20;
  options.graphs = strategy.execution_strategy().cuda_graph();
  options.settings.tensor_op_math = strategy.runtime_flags().enable_cublas_tensor_op_math();
  options.settings.persistent_batch_norm = strategy.cudnn_batchnorm_spatial_persistent();
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(config.place()));
  // In Paddle, both limits apply to its memory pool and to device memory. On the CPU, Tandem has no
  // pool and returns pages to the system one by one. Therefore the limits apply on the CPU only if
  // the job sets them.
  const RuntimeFlags& flags = strategy.runtime_flags();
  const ExecutionStrategy& execution = strategy.execution_strategy();
  if (place.kind != PlaceKind::kCpu || execution.has_num_iteration_per_drop_scope()) {
    options.drop.every_runs = execution.num_iteration_per_drop_scope();
  }
  if (place.kind != PlaceKind::kCpu || flags.has_local_exe_sub_scope_limit()) {
    const double mb = flags.local_exe_sub_scope_limit();
    options.drop.above_bytes = mb < 0 ? -1 : static_cast<int64_t>(mb * (1 << 20));
  }
  options.num_threads = NumThreads(strategy, place.kind);
  return options;
}

std::unique_ptr<ops::ConvSearch> ConvSearchOf(const JobConfig& config, const std::string& job_dir,
                                              const Place& place, std::string* notes) {
  const DistributedStrategy& strategy = config.strategy();
  if (!strategy.cudnn_exhaustive_search()) return nullptr;
  const bool on_cpu = place.kind == PlaceKind::kCpu;
  const auto& types = strategy.build_strategy().mkldnn_enabled_op_types();
  const auto listed = [&types](const char* type) {
    return std::find(types.begin(), types.end(), type) != types.end();
  };
  if (on_cpu && (!strategy.runtime_flags().use_mkldnn() ||
                 (!types.empty() && !(listed("conv2d") && listed("conv2d_grad"))))) {
    *notes += "cudnn_exhaustive_search: no effect, because oneDNN is switched off\n";
    return nullptr;
  }
  const std::string path = InJobDir(job_dir, strategy.conv_search_cache());
  auto search = std::make_unique<ops::ConvSearch>(path);
  if (const Status status = search->Load(); !status.ok()) {
    *notes += "warning: " + ToString(status) + "; all algorithms are measured again\n";
  }
  return search;
}

std::string SaveSearched(ops::ConvSearch& search, int64_t* saved) {
  if (search.measured() == *saved) return "";
  *saved = search.measured();
  std::string notes;
  const Status written = search.Save();
  if (!written.ok()) notes = "warning: " + ToString(written) + "\n";
  return notes + absl::StrFormat("convolutions: %d measured, %d known\n", *saved, search.found());
}

}  // namespace tandem::trainer
