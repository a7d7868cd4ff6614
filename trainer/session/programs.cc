#include "trainer/session/programs.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "kernels/graph/distribute/sections.h"
#include "kernels/graph/draw.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/models/job_model.h"
#include "trainer/modes/local_mode.h"
#include "trainer/modes/make_mode.h"
#include "trainer/modes/table_checks.h"
#include "trainer/reader/input/sampler.h"
#include "trainer/reader/open.h"
#include "trainer/session/plan_options.h"
#include "trainer/session/sample_images.h"

namespace tandem::trainer {
namespace {

// Returns the initial gradient of the loss on this rank. The ranks sum their gradients, and the
// strategy determines which loss the sum belongs to:
// - CoeffNumDevice: the mean loss of all samples (with equal shares, the value is 1 / ranks).
// - One: the sum of the ranks' mean losses.
// - Customized: the job sets the value; CheckJob has checked that the value is set.
float LossScale(const JobConfig& config, double share) {
  switch (config.strategy().build_strategy().gradient_scale_strategy()) {
    case BuildStrategy::CoeffNumDevice: {
      const DistributedStrategy& strategy = config.strategy();
      // With LocalSGD, gradients are not summed over the ranks.
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

Status CheckAllDense(const std::vector<graph::ParamGrad>& grads) {
  for (const graph::ParamGrad& pair : grads) {
    if (pair.rows.empty()) continue;
    return Unimplemented(
        "deterministic with the sparse gradient of \"%s\" is not implemented [TD1109]; hint: make "
        "the gradient dense (model argument sparse=0)",
        pair.param);
  }
  return OkStatus();
}

}  // namespace

Status AddTraining(const JobConfig& config, const TrainingMode& mode, double share,
                   const graph::ProgramObserver& observer, JobPrograms* programs) {
  TD_REQUIRE(mode.programs != nullptr && share > 0 && share <= 1);
  const DistributedStrategy& strategy = config.strategy();
  graph::Program& train = programs->train;
  std::vector<graph::ParamGrad> grads;
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(config.place()));
  graph::PassPipeline passes(strategy, observer, place.kind);
  TD_RETURN_IF_ERROR(passes.Observe("model", train));
  TD_RETURN_IF_ERROR(passes.Run(graph::PassStage::kForward, train, grads));
  TD_ASSIGN_OR_RETURN(grads, graph::AppendBackward(train, LossScale(config, share)));
  if (config.data().remainder() == DataConfig::JOIN) TD_RETURN_IF_ERROR(graph::WeightSteps(train));
  TD_RETURN_IF_ERROR(passes.Observe("autodiff", train));
  if (strategy.deterministic()) TD_RETURN_IF_ERROR(CheckAllDense(grads));
  TD_RETURN_IF_ERROR(passes.Run(graph::PassStage::kBackward, train, grads));
  TD_RETURN_IF_ERROR(mode.programs->Distribute(train, grads));
  TD_RETURN_IF_ERROR(mode.programs->DistributeForward(programs->forward));
  TD_RETURN_IF_ERROR(passes.Observe("distribute", train));
  TD_RETURN_IF_ERROR(passes.Run(graph::PassStage::kUpdate, train, grads));
  if (strategy.sharding()) {
    TD_RETURN_IF_ERROR(mode.programs->SplitParams(train));
    TD_RETURN_IF_ERROR(passes.Observe("sharding", train));
  }
  programs->passes = passes.TakeReports();
  return OkStatus();
}

StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int64_t global_batch, const TrainingMode& mode,
                                    const graph::ProgramObserver& observer) {
  TD_REQUIRE(mode.programs != nullptr && batch > 0 && batch <= global_batch);
  const DistributedStrategy& strategy = config.strategy();
  const bool pipeline = strategy.pipeline();
  const int64_t parts = pipeline ? strategy.pipeline_configs().micro_batch()
                                 : strategy.batch_merge_repeats() * mode.micro_batches;
  if (batch % parts != 0) {
    const char* what = pipeline                   ? "micro_batch"
                       : strategy.deterministic() ? "deterministic"
                                                  : "batch_merge_repeats";
    return InvalidArgument(
        "%s: a batch of %d samples cannot be divided into %d equal parts [TD1104]", what, batch,
        parts);
  }
  // In geo mode a trainer updates its parameters alone, and the exchange with the servers computes
  // the mean.
  const bool alone = config.strategy().a_sync() && config.strategy().a_sync_configs().k_steps() > 0;
  const double share = alone ? 1.0 : static_cast<double>(batch) / static_cast<double>(global_batch);
  batch /= parts;
  JobPrograms programs;
  TD_ASSIGN_OR_RETURN(programs.forward, ForwardProgram(config.model(), job_dir, batch));
  if (SamplesInStep(config)) TD_RETURN_IF_ERROR(SampleImagesIn(config, programs.forward));
  if (pipeline)
    TD_RETURN_IF_ERROR(graph::AssignSections(programs.forward, config.model().sections()));
  TD_RETURN_IF_ERROR(mode.programs->PlaceOperators(programs.forward));
  programs.train = programs.forward;
  TD_RETURN_IF_ERROR(AddTraining(config, mode, share, observer, &programs));
  return programs;
}

graph::ProgramObserver DrawInto(const std::string& dir) {
  if (dir.empty()) return nullptr;
  int count = 0;
  return [dir, count](std::string_view point, const graph::Program& program) mutable -> Status {
    std::error_code error;
    std::filesystem::create_directories(dir, error);
    const std::string path = absl::StrFormat("%s/%02d_%s.dot", dir, count++, point);
    return Annotate(
        WriteTextFile(path,
                      graph::ToDot(program, absl::StrFormat("%s after %s", program.name, point))),
        "debug_graphviz_path");
  };
}

namespace {

// Checks that the data variables of the program match the data. These are the checks of BindFields
// (trainer/session/evaluation/evaluator.h) that need no data files.
Status CheckDataNames(const graph::Program& program, const DataConfig& data) {
  const std::vector<std::string> fields = reader::FieldNames(data);
  std::vector<std::string> variables;
  for (const graph::Var* var : program.VarsOf(graph::VarKind::kData))
    variables.push_back(var->name);
  const auto in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (fields.empty()) return OkStatus();
  for (const std::string& name : variables) {
    if (in(fields, name)) continue;
    return InvalidArgument(
        "the program reads data variable \"%s\", but data of format %s have no such field "
        "[TD1208]; hint: rename the variable to one of the fields %s",
        name, data.format(), absl::StrJoin(fields, ", "));
  }
  for (const std::string& name : fields) {
    if (in(variables, name)) continue;
    return InvalidArgument(
        "data of format %s have a field \"%s\", but the program has no such data variable "
        "[TD1208]; hint: add the variable to the program, whose data variables are %s",
        data.format(), name, variables.empty() ? "none" : absl::StrJoin(variables, ", "));
  }
  return OkStatus();
}

// Returns the mode of one rank of the job, without a connection to other processes. Jobs with
// several places, and pipelines with one worker, get mode LOCAL: their ranks have parts of the job.
StatusOr<TrainingMode> ModeOfRank(const JobConfig& config, int workers, int index) {
  RankInfo rank;
  rank.rank = index;
  rank.size = workers;
  // The modes require addresses, but they connect to none of them before the first step.
  rank.rendezvous = "127.0.0.1:1";
  rank.pservers = {"127.0.0.1:1"};
  const CommonOptions common = CommonOptionsOf(config, rank, ModeSecrets{});
  const bool pipeline_of_one = config.strategy().pipeline() && workers == 1;
  if (pipeline_of_one || PlacesOf(config) > 1) return MakeLocalMode(common);
  return MakeMode(config, rank, common);
}

// Returns the number of samples of the first place of a rank.
int64_t BatchOfRank(const JobConfig& config, int workers, int index, const TrainingMode& mode) {
  const int parts = workers * PlacesOf(config) / mode.sections;
  const int part = index * PlacesOf(config) / mode.sections;
  const int64_t batch = reader::ShareOf(static_cast<uint32_t>(GlobalBatch(config, workers)),
                                        static_cast<uint32_t>(part), static_cast<uint32_t>(parts))
                            .size;
  // One worker checks a pipeline for any number of workers, so the batch has one micro batch.
  return config.strategy().pipeline() && workers == 1
             ? config.strategy().pipeline_configs().micro_batch()
             : batch;
}

// Builds the programs of one rank, and discards them.
Status CheckProgramsOf(const JobConfig& config, const std::string& job_dir, int workers,
                       int index) {
  TD_ASSIGN_OR_RETURN(const TrainingMode mode, ModeOfRank(config, workers, index));
  const int64_t batch = BatchOfRank(config, workers, index, mode);
  const int64_t global = std::max(batch, GlobalBatch(config, workers));
  TD_ASSIGN_OR_RETURN(const JobPrograms programs,
                      BuildPrograms(config, job_dir, batch, global, mode));
  TD_RETURN_IF_ERROR(RefuseTableRules(programs.train));
  return SamplesInStep(config) ? OkStatus() : CheckDataNames(programs.forward, config.data());
}

}  // namespace

Status CheckPrograms(const JobConfig& config, const std::string& job_dir, int workers) {
  TD_REQUIRE(workers > 0);
  TD_RETURN_IF_ERROR(PlanOptionsOf(config, 1).status());
  TD_RETURN_IF_ERROR(CheckProgramsOf(config, job_dir, workers, 0));
  return workers == 1 ? OkStatus() : CheckProgramsOf(config, job_dir, workers, workers - 1);
}

}  // namespace tandem::trainer
