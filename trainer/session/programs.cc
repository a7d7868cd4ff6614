#include "trainer/session/programs.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/str_join.h"
#include "common/base/files.h"
#include "kernels/exec/graph_pieces.h"
#include "kernels/graph/draw.h"
#include "kernels/graph/passes/sections.h"
#include "kernels/ops/conv/conv_search.h"
#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/job/sample_images.h"
#include "trainer/models/job_model.h"
#include "trainer/modes/mode_options.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {
namespace {

// The initial gradient of the loss. The sum over all ranks must be what the strategy asks for:
//
// - CoeffNumDevice: the mean over all samples (with equal shares 1 / ranks);
// - One: the sum of the ranks' means;
// - Customized: the job's value, which CheckJob has checked to be set.
float LossScale(const JobConfig& config, double share) {
  switch (config.strategy().build_strategy().gradient_scale_strategy()) {
    case BuildStrategy::CoeffNumDevice: {
      const DistributedStrategy& strategy = config.strategy();
      // Gradients are not summed over ranks
      const bool alone = strategy.localsgd() || strategy.adaptive_localsgd();
      return alone ? 1.0f : static_cast<float>(share);
    }
    case BuildStrategy::One:
      return 1.0f;
    case BuildStrategy::Customized:
      return config.loss_gradient();
  }
  return 1.0f;
}

Status CheckAllDense(const std::vector<ParamGrad>& grads) {
  for (const ParamGrad& pair : grads) {
    if (pair.rows.empty()) continue;
    return Unimplemented(
        "deterministic with the sparse gradient of \"%s\" is not implemented [TD1109]; hint: make "
        "the gradient dense (model argument sparse=0)",
        pair.param);
  }
  return OkStatus();
}

}  // namespace

StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int64_t global_batch, ModeDriver& mode,
                                    const ProgramObserver& observer) {
  const DistributedStrategy& strategy = config.strategy();
  const bool pipeline = strategy.pipeline();
  const int64_t parts = pipeline ? strategy.pipeline_configs().micro_batch()
                                 : strategy.batch_merge_repeats() * mode.micro_batches();
  if (batch % parts != 0) {
    const char* what = pipeline                   ? "micro_batch"
                       : strategy.deterministic() ? "deterministic"
                                                  : "batch_merge_repeats";
    return InvalidArgument(
        "%s: a batch of %d samples cannot be divided into %d equal parts [TD1104]", what, batch,
        parts);
  }
  // In geo mode a trainer steps alone, and the exchange computes the mean.
  const bool alone = config.strategy().a_sync() && config.strategy().a_sync_configs().k_steps() > 0;
  const double share = alone ? 1.0 : static_cast<double>(batch) / static_cast<double>(global_batch);
  batch /= parts;
  JobPrograms programs;
  TD_ASSIGN_OR_RETURN(programs.forward, ForwardProgram(config.model(), job_dir, batch));
  if (SamplesInStep(config)) TD_RETURN_IF_ERROR(SampleImagesIn(config, programs.forward));
  if (pipeline) TD_RETURN_IF_ERROR(AssignSections(programs.forward, config.model().sections()));
  TD_RETURN_IF_ERROR(mode.PlaceOperators(programs.forward));
  programs.train = programs.forward;
  Program& train = programs.train;
  std::vector<ParamGrad> grads;
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(config.place()));
  PassPipeline passes(config.strategy(), observer, place.kind);
  TD_RETURN_IF_ERROR(passes.Observe("model", train));
  TD_RETURN_IF_ERROR(passes.Run(PassStage::kForward, train, grads));
  TD_ASSIGN_OR_RETURN(grads, AppendBackward(train, LossScale(config, share)));
  if (config.data().remainder() == DataConfig::JOIN) TD_RETURN_IF_ERROR(WeightSteps(train));
  TD_RETURN_IF_ERROR(passes.Observe("autodiff", train));
  if (config.strategy().deterministic()) TD_RETURN_IF_ERROR(CheckAllDense(grads));
  TD_RETURN_IF_ERROR(passes.Run(PassStage::kBackward, train, grads));
  TD_RETURN_IF_ERROR(mode.Distribute(train, grads));
  TD_RETURN_IF_ERROR(mode.DistributeForward(programs.forward));
  TD_RETURN_IF_ERROR(passes.Observe("distribute", train));
  TD_RETURN_IF_ERROR(passes.Run(PassStage::kUpdate, train, grads));
  if (config.strategy().sharding()) {
    TD_RETURN_IF_ERROR(mode.Shard(train));
    TD_RETURN_IF_ERROR(passes.Observe("sharding", train));
  }
  programs.passes = passes.TakeReports();
  return programs;
}

namespace {

bool Sequential(const DistributedStrategy& strategy) {
  return strategy.build_strategy().enable_sequential_execution() || strategy.recompute();
}

// 0 means the reference's formula, per replica. Operators in sequence never overlap: one thread
// runs them, and their kernels use all threads of the replica.
int NumThreads(const DistributedStrategy& strategy, PlaceKind place) {
  if (Sequential(strategy)) return 1;
  const int asked = strategy.execution_strategy().num_threads();
  if (asked > 0) return asked;
  return place == PlaceKind::kCpu ? 2 : 4;
}

}  // namespace

MemoryOptions MemoryOptionsOf(const DistributedStrategy& strategy) {
  const double eager_gb = strategy.runtime_flags().eager_delete_tensor_gb();
  const BuildStrategy& build = strategy.build_strategy();
  const bool freed_late = build.memory_optimize() == BuildStrategy::Auto && eager_gb < 0;
  return {.inplace = build.enable_inplace(),
          .reuse = build.memory_optimize() == BuildStrategy::On || freed_late,
          .eager_delete_bytes = static_cast<int64_t>(eager_gb * static_cast<double>(1 << 30))};
}

std::string PlanReport(const DistributedStrategy& strategy, const Plan& plan) {
  const BuildStrategy& build = strategy.build_strategy();
  std::string text;
  if (build.has_enable_inplace() || build.has_memory_optimize() ||
      strategy.runtime_flags().has_eager_delete_tensor_gb()) {
    text += "memory: " + ToText(plan.memory()) + "\n";
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
            (plan.recorder() == nullptr ? "not available on the CPU" : PiecesText(plan)) + "\n";
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

std::unique_ptr<ConvSearch> ConvSearchOf(const JobConfig& config, const std::string& job_dir,
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
  auto search = std::make_unique<ConvSearch>(path);
  if (const Status status = search->Load(); !status.ok()) {
    *notes += "warning: " + ToString(status) + "; all algorithms are measured again\n";
  }
  return search;
}

int ThreadsOf(const JobConfig& config, const RankInfo& rank) {
  if (config.threads() > 0) return config.threads();
  // The results of some kernels depend on the number of threads.
  if (config.strategy().deterministic()) return 1;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, rank.local_size));
}

std::string IdleCoresNote(const JobConfig& config, const RankInfo& rank, int cores) {
  const DistributedStrategy& strategy = config.strategy();
  if (!strategy.deterministic() || config.threads() > 0 || PlacesOf(config) > 1) return "";
  const int own = cores / std::max(1, rank.local_size);
  int places = 1;  // a power of two, as the parts are
  while (places * 2 <= std::min(own, strategy.batch_merge_repeats())) places *= 2;
  if (places == 1) return "";
  return absl::StrFormat(
      "deterministic: kernels use one of %d cores; --cpu_num=%d uses %d cores with the same bits\n",
      own, places, places);
}

std::string ShareNote(const JobConfig& config, int workers) {
  if (config.strategy().pipeline() || workers * PlacesOf(config) == 1) return "";
  return "loss and metrics of a step are of the first rank's part of the batch; those of an "
         "evaluation are of all test data\n";
}

StatusOr<PlanOptions> PlanOptionsOf(const JobConfig& config, int threads) {
  const DistributedStrategy& strategy = config.strategy();
  PlanOptions options;
  options.threads = threads;
  if (!strategy.runtime_flags().use_mkldnn()) options.disable_impls = {"onednn"};
  for (const std::string& type : strategy.build_strategy().mkldnn_enabled_op_types()) {
    TD_RETURN_IF_ERROR(Annotate(GetOp(type).status(), "mkldnn_enabled_op_types"));
    options.onednn_ops.push_back(type);
  }
  options.memory = MemoryOptionsOf(strategy);
  options.conv_scratch_max = static_cast<size_t>(strategy.conv_workspace_size_limit()) << 20;
  options.graphs = strategy.execution_strategy().cuda_graph();
  options.tensor_op_math = strategy.runtime_flags().enable_cublas_tensor_op_math();
  options.persistent_batch_norm = strategy.cudnn_batchnorm_spatial_persistent();
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(config.place()));
  // The reference frees memory into a pool; here pages return to the system one by one. The
  // reference's limit applies to device memory. On CPU therefore both apply if they are set.
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

ProgramObserver DrawInto(const std::string& dir) {
  if (dir.empty()) return nullptr;
  int count = 0;
  return [dir, count](std::string_view point, const Program& program) mutable -> Status {
    std::error_code error;
    std::filesystem::create_directories(dir, error);
    const std::string path = absl::StrFormat("%s/%02d_%s.dot", dir, count++, point);
    return Annotate(
        WriteTextFile(path, ToDot(program, absl::StrFormat("%s after %s", program.name, point))),
        "debug_graphviz_path");
  };
}

namespace {

// The checks of BindFields (trainer/session/evaluator.h) that do not need the data files.
Status CheckDataNames(const Program& program, const DataConfig& data) {
  const std::vector<std::string> fields = reader::FieldNames(data);
  std::vector<std::string> variables;
  for (const Var* var : program.VarsOf(VarKind::kData)) variables.push_back(var->name);
  const auto in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (fields.empty()) return OkStatus();
  for (const std::string& name : variables) {
    if (in(fields, name)) continue;
    return InvalidArgument(
        "the program reads data variable \"%s\", but data of format %s have no such field "
        "[TD1208]; hint: the fields are %s",
        name, data.format(), absl::StrJoin(fields, ", "));
  }
  for (const std::string& name : fields) {
    if (in(variables, name)) continue;
    return InvalidArgument(
        "data of format %s have a field \"%s\", but the program has no such data variable "
        "[TD1208]; hint: the data variables are %s",
        data.format(), name, variables.empty() ? "none" : absl::StrJoin(variables, ", "));
  }
  return OkStatus();
}

}  // namespace

Status CheckPrograms(const JobConfig& config, const std::string& job_dir) {
  const DistributedStrategy& strategy = config.strategy();
  const int64_t batch =
      strategy.pipeline() ? strategy.pipeline_configs().micro_batch() : GlobalBatch(config, 1);
  TD_ASSIGN_OR_RETURN(const ModeOptions options, ModeOptionsOf(config, RankInfo{}, ""));
  const auto mode = MakeLocalMode(options);
  TD_RETURN_IF_ERROR(PlanOptionsOf(config, 1).status());
  TD_ASSIGN_OR_RETURN(const JobPrograms programs,
                      BuildPrograms(config, job_dir, batch, batch, *mode));
  return SamplesInStep(config) ? OkStatus() : CheckDataNames(programs.forward, config.data());
}

}  // namespace tandem::trainer
