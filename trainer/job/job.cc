#include "trainer/job/job.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/base/require.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "common/strategy/text_parser.h"
#include "common/strategy/validate.h"
#include "proto/job.pb.h"
#include "trainer/config/pipeline_config.h"
#include "trainer/job/data_sizes.h"
#include "trainer/job/heter_config.h"
#include "trainer/job/job_checks.h"
#include "trainer/job/stream_checks.h"

namespace tandem::trainer {
namespace {

// The fields of a job that are paths of files or directories.
constexpr std::string_view kPaths[] = {
    "data.dir",
    "model.program",
    "model.parameters",
    "checkpoint.dir",
    "profile.dir",
    "strategy.conv_search_cache",
    "strategy.compilation_cache_dir",
    "strategy.build_strategy.debug_graphviz_path",
    "strategy.runtime_flags.pe_profile_fname",
};

// Converts the value of a flag for use in the job. A path in a flag is relative to the working
// directory and becomes absolute, because paths in the job are relative to `job_dir`.
std::string ValueOfFlag(const std::string& name, const std::string& value,
                        const std::string& job_dir) {
  const auto is = [&name](std::string_view path) {
    return path == name || path.ends_with("." + name);
  };
  if (job_dir.empty() || value.empty() || value[0] == '/') return value;
  if (std::none_of(std::begin(kPaths), std::end(kPaths), is)) return value;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  return error ? value : (here / value).string();
}

// Copies a_sync_configs.lr_decay_steps to decay_steps, if the job has an exponential schedule
// without decay_steps.
void SetDecaySteps(JobConfig* config) {
  const A_SyncConfigs& async = config->strategy().a_sync_configs();
  const LearningRateSchedule& schedule = config->optimizer().schedule();
  if (!config->strategy().a_sync() || !async.has_lr_decay_steps()) return;
  if (schedule.kind() != LearningRateSchedule::EXPONENTIAL || schedule.decay_steps() != 0) return;
  config->mutable_optimizer()->mutable_schedule()->set_decay_steps(async.lr_decay_steps());
}

// Implements `deterministic` for `ranks` ranks: each rank computes its share of the logical shards
// one after another.
void SetLogicalShards(int ranks, JobConfig* config) {
  TD_REQUIRE(ranks > 0);
  DistributedStrategy* strategy = config->mutable_strategy();
  if (!strategy->deterministic()) return;
  strategy->set_batch_merge_repeats(std::max(1, strategy->logical_shards() / ranks));
}

// Reports an error in a setting that overrides the job file. `origin`: origin of the setting.
void AddError(const strategy::Origin& origin, const Status& status,
              strategy::Diagnostics* diagnostics) {
  std::string message(status.message());
  const std::string prefix = origin.ToString() + ": ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  diagnostics->Error(origin.place, message);
}

}  // namespace

EffectiveJob CheckJob(const strategy::TextFile* file, const JobSources& sources, int workers,
                      strategy::Diagnostics* diagnostics) {
  EffectiveJob job;
  strategy::Origins origins;
  if (file != nullptr) strategy::ParseTextProto(*file, job.config.get(), &origins, diagnostics);
  strategy::ApplyEnvironment(job.config.get(), sources.environment, &origins, diagnostics);
  for (const auto& [name, value] : sources.overrides) {
    const strategy::Origin origin =
        sources.stepped_by_caller ? strategy::SettingOrigin(name) : strategy::FlagOrigin(name);
    const Status status = strategy::ApplyOverride(job.config.get(), name,
                                                  ValueOfFlag(name, value, JobDir(sources.path)),
                                                  origin, &origins, sources.flags);
    if (!status.ok()) AddError(origin, status, diagnostics);
  }
  for (const auto& [name, value] : sources.chosen) {
    const Status status =
        strategy::ApplyOverride(job.config.get(), name, value, strategy::AutoOrigin(), &origins);
    if (!status.ok()) AddError(strategy::AutoOrigin(), status, diagnostics);
  }

  const JobConfig& config = *job.config;
  strategy::StrategyContext context;
  context.mode = static_cast<strategy::TrainMode>(config.mode());
  context.mode_origin = origins.Of("mode");
  context.ranks = workers * PlacesOf(config);
  strategy::ValidateStrategy(config.strategy(), context, origins, "strategy", diagnostics);
  if (sources.stepped_by_caller) {
    CheckTrainingSettings(config, origins, diagnostics);
  } else {
    CheckSettings(config, origins, workers, diagnostics);
    CheckStream(config, workers, sources.heter_workers, origins, diagnostics);
  }
  SetDecaySteps(job.config.get());
  job.text = strategy::EffectiveText(config, origins);
  SetLogicalShards(context.ranks, job.config.get());
  CheckHeterWorkers(config, workers, sources.heter_workers, origins, diagnostics);
  if (!sources.stepped_by_caller) {
    SetDataSizes(JobDir(sources.path), origins, diagnostics, job.config.get());
    SetSections(context.ranks, JobDir(sources.path), origins, diagnostics, job.config.get());
  }
  job.notes = diagnostics->NoteText();
  return job;
}

StatusOr<EffectiveJob> LoadJob(const JobSources& sources, int workers) {
  strategy::Diagnostics diagnostics;
  strategy::TextFile file;
  const bool has_file = !sources.path.empty();
  if (has_file) {
    TD_ASSIGN_OR_RETURN(file, strategy::ReadTextFile(sources.path));
  }
  EffectiveJob job = CheckJob(has_file ? &file : nullptr, sources, workers, &diagnostics);
  TD_RETURN_IF_ERROR(diagnostics.status());
  return job;
}

}  // namespace tandem::trainer
