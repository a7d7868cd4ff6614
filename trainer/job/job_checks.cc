#include "trainer/job/job_checks.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/nearest.h"
#include "common/strategy/strategy.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/config/optimizer_config.h"
#include "trainer/models/models.h"
#include "trainer/reader/open.h"

namespace tandem::trainer {
namespace {

void RequirePositive(const strategy::Origins& origins, const char* field, double value,
                     strategy::Diagnostics* diagnostics) {
  if (value > 0) return;
  diagnostics->Error(origins.Of(field).place,
                     absl::StrFormat("%s is %g, expected above 0 [TD1104]", field, value));
}

void CheckModel(const JobConfig& config, const strategy::Origins& origins,
                strategy::Diagnostics* diagnostics) {
  if (config.model().has_zoo() == config.model().has_program()) {
    diagnostics->Error(
        origins.Of("model").place,
        "the job file must set exactly one of model.zoo and model.program [TD1106]",
        "add model { zoo: \"lenet\" }, or another model that tandem-trainer --list_models names");
  }
  if (config.model().has_zoo()) {
    std::map<std::string, std::string> args;
    for (const ModelArg& arg : config.model().arg()) args[arg.name()] = arg.value();
    const Status known = CheckModelNames(config.model().zoo(), args);
    const bool of_args = known.code() == StatusCode::kInvalidArgument;
    if (!known.ok()) {
      diagnostics->Error(origins.Of(of_args && args.size() == 1 ? "model.arg" : "model.zoo").place,
                         std::string(known.message()));
    }
  }
  if (!config.data().has_dir() && config.data().format() != "synthetic") {
    diagnostics->Error(origins.Of("data").place,
                       "data.dir, the directory of the training data, is not set [TD1106]",
                       "add data { format: \"mnist\" dir: \"/usr/share/datasets/fashion-mnist\" }");
  }
}

void CheckBatch(const JobConfig& config, const strategy::Origins& origins, int workers,
                strategy::Diagnostics* diagnostics) {
  if (config.has_batch_size() == config.has_global_batch_size()) {
    diagnostics->Error(origins.Of("batch_size").place,
                       "the job file must set exactly one of batch_size (for each worker) and "
                       "global_batch_size (for all workers together) [TD1106]");
    return;
  }
  const int64_t batch = config.has_batch_size() ? config.batch_size() : config.global_batch_size();
  if (batch < 1 || batch > (1 << 24)) {
    diagnostics->Error(
        origins.Of("batch_size").place,
        absl::StrFormat("the batch has %d samples, expected 1 to 16777216 [TD1104]", batch),
        "use 1 to 16777216 samples");
  } else if (const DistributedStrategy& s = config.strategy();
             s.deterministic() && GlobalBatch(config, workers) % s.logical_shards() != 0) {
    diagnostics->Error(
        origins.Of(config.has_batch_size() ? "batch_size" : "global_batch_size").place,
        absl::StrFormat("deterministic: a batch of %d samples cannot be divided into %d equal "
                        "logical_shards [TD1104]",
                        GlobalBatch(config, workers), s.logical_shards()));
  } else if (GlobalBatch(config, workers) < int64_t{workers} * PlacesOf(config)) {
    diagnostics->Error(
        origins.Of(config.has_batch_size() ? "batch_size" : "global_batch_size").place,
        absl::StrFormat("a batch of %d samples is too small for %d workers with %d places each: "
                        "every place needs a sample [TD2006]",
                        batch, workers, PlacesOf(config)));
  }
}

void CheckData(const DataConfig& data, const strategy::Origins& origins,
               strategy::Diagnostics* diagnostics) {
  const struct {
    const char* field;
    int64_t value, max;
  } rows[] = {{"data.train_samples_max", data.train_samples_max(), UINT32_MAX},
              {"data.max_bad_records", data.max_bad_records(), INT64_MAX},
              {"data.reader_threads", data.reader_threads(), 1024}};
  for (const auto& row : rows) {
    if (row.value >= 0 && row.value <= row.max) continue;
    diagnostics->Error(
        origins.Of(row.field).place,
        absl::StrFormat("%s is %d, expected 0 to %d [TD1104]", row.field, row.value, row.max));
  }
  if (const Status test = reader::CheckTestData(data); !test.ok()) {
    diagnostics->Error(origins.Of("data").place, std::string(test.message()));
  }
}

void CheckSamplesInStep(const JobConfig& config, const strategy::Origins& origins,
                        strategy::Diagnostics* diagnostics) {
  const strategy::SourcePlace place = origins.Of("strategy.runtime_flags.use_dali").place;
  if (config.data().format() != "images") {
    diagnostics->Error(place,
                       absl::StrFormat("use_dali needs data.format \"images\" (lists of JPEG "
                                       "images), but data.format is \"%s\" [TD1108]",
                                       config.data().format()),
                       "set data { format: \"images\" }, or use_dali: false");
  }
  if (config.strategy().pipeline()) {
    diagnostics->Error(place, "use_dali with pipeline is not implemented [TD1109]",
                       "set use_dali: false");
  }
}

void CheckLimits(const JobConfig& config, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics) {
  RequirePositive(origins, "start_timeout_ms", static_cast<double>(config.start_timeout_ms()),
                  diagnostics);
  RequirePositive(origins, "step_timeout_ms", static_cast<double>(config.step_timeout_ms()),
                  diagnostics);
  RequirePositive(origins, "optimizer.learning_rate", config.optimizer().learning_rate(),
                  diagnostics);
  const bool customized =
      config.strategy().build_strategy().gradient_scale_strategy() == BuildStrategy::Customized;
  if (customized != config.has_loss_gradient()) {
    diagnostics->Error(
        origins.Of("loss_gradient").place,
        customized
            ? "gradient_scale_strategy Customized needs the field loss_gradient, which is not set "
              "[TD1106]"
            : "loss_gradient has no effect without gradient_scale_strategy Customized [TD1107]");
  }
  if (const auto place = ParsePlace(config.place()); !place.ok()) {
    diagnostics->Error(origins.Of("place").place, std::string(place.status().message()));
  }
}

// Checks that the job measures in one way only.
void CheckInstrumentation(const JobConfig& config, const strategy::Origins& origins,
                          strategy::Diagnostics* diagnostics) {
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  const bool profile = !config.profile().dir().empty();
  if (profile && flags.check_nan_inf()) {
    diagnostics->Error(origins.Of("profile.dir").place,
                       "profile.dir and check_nan_inf exclude each other, because the check would "
                       "distort the profile [TD1108]",
                       "remove one of the two");
  }
  if (flags.benchmark() && (profile || flags.check_nan_inf())) {
    diagnostics->Error(
        origins.Of("strategy.runtime_flags.benchmark").place,
        absl::StrFormat("benchmark and %s exclude each other, because each would distort the times "
                        "of the other [TD1108]",
                        profile ? "profile.dir" : "check_nan_inf"),
        "remove one of the two");
  }
}

// Checks what verify_replay needs.
void CheckReplay(const JobConfig& config, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics) {
  if (config.verify_replay() == 0) return;
  const strategy::SourcePlace place = origins.Of("verify_replay").place;
  if (config.verify_replay() < 0) {
    diagnostics->Error(place, absl::StrFormat("verify_replay is %d, expected at least 0 [TD1104]",
                                              config.verify_replay()));
    return;
  }
  const RuntimeFlags& flags = config.strategy().runtime_flags();
  const char* other = nullptr;
  if (!config.profile().dir().empty()) other = "profile.dir";
  if (flags.check_nan_inf()) other = "check_nan_inf";
  if (flags.benchmark()) other = "benchmark";
  if (config.strategy().execution_strategy().num_threads() != 1) other = "num_threads unlike 1";
  if (other != nullptr) {
    diagnostics->Error(place,
                       absl::StrFormat("verify_replay and %s exclude each other, because "
                                       "verify_replay watches the operators one after another "
                                       "[TD1108]",
                                       other),
                       "remove one of the two");
  }
  if (config.strategy().pipeline()) {
    diagnostics->Error(place, "verify_replay with pipeline is not implemented [TD1109]",
                       "remove one of the two");
  }
  const auto device = ParsePlace(config.place());
  if (device.ok() && device->kind != PlaceKind::kCpu) {
    diagnostics->Error(place, "verify_replay compares results of CPUs only [TD1107]",
                       "remove verify_replay, or set place: \"cpu\"");
  }
}

// Checks that the checksums of param_checksums have a meaning in the job.
void CheckParamChecksums(const JobConfig& config, const strategy::Origins& origins,
                         strategy::Diagnostics* diagnostics) {
  if (config.param_checksums() == 0) return;
  const strategy::SourcePlace place = origins.Of("param_checksums").place;
  if (config.param_checksums() < 0) {
    diagnostics->Error(place, absl::StrFormat("param_checksums is %d, expected at least 0 [TD1104]",
                                              config.param_checksums()));
    return;
  }
  const DistributedStrategy& s = config.strategy();
  const std::pair<bool, const char*> rows[] = {
      {s.localsgd() || s.adaptive_localsgd(),
       "LocalSGD (the ranks have different parameters between two averages) [TD1108]"},
      {s.sharding(), "sharding (a rank has only a part of the parameters) [TD1108]"},
      {s.pipeline(), "pipeline (a rank has only the parameters of its section) [TD1108]"},
      {s.a_sync(), "a_sync (the parameters depend on the time of the pushes) [TD1108]"},
      {config.mode() == HYBRID, "mode HYBRID (not implemented) [TD1109]"},
      {s.runtime_flags().reader_queue_speed_test_mode(),
       "reader_queue_speed_test_mode (the job does not train) [TD1108]"},
  };
  for (const auto& [given, what] : rows) {
    if (!given) continue;
    diagnostics->Error(place, absl::StrCat("param_checksums cannot be combined with ", what),
                       "remove one of the two");
  }
}

void CheckRest(const JobConfig& config, const strategy::Origins& origins,
               strategy::Diagnostics* diagnostics) {
  RequirePositive(origins, "epochs", static_cast<double>(config.epochs()), diagnostics);
  RequirePositive(origins, "data.queue_capacity", config.data().queue_capacity(), diagnostics);
  const auto formats = reader::DataFormats();
  if (std::find(formats.begin(), formats.end(), config.data().format()) == formats.end()) {
    diagnostics->Error(origins.Of("data.format").place,
                       "unknown data.format \"" + config.data().format() + "\" [TD2005]" +
                           OrDidYouMean(config.data().format(), formats),
                       "use one of " + absl::StrJoin(formats, ", "));
  }
  if (config.strategy().runtime_flags().enable_rpc_profiler() && config.profile().dir().empty()) {
    diagnostics->Error(origins.Of("strategy.runtime_flags.enable_rpc_profiler").place,
                       "enable_rpc_profiler has no effect without a profile of steps [TD1107]",
                       "add profile { dir: \"profile\" }");
  }
  if (config.strategy().runtime_flags().reader_queue_speed_test_mode() &&
      !config.checkpoint().dir().empty()) {
    diagnostics->Error(
        origins.Of("checkpoint.dir").place,
        "reader_queue_speed_test_mode does not train, so checkpoint.dir has no effect [TD1107]",
        "remove one of the two");
  }
  if (SamplesInStep(config)) CheckSamplesInStep(config, origins, diagnostics);
  CheckInstrumentation(config, origins, diagnostics);
  CheckReplay(config, origins, diagnostics);
  CheckParamChecksums(config, origins, diagnostics);
}

// Checks that the job supports data.remainder JOIN, if the job sets it. With JOIN, the mean of the
// gradients excludes the ranks that have no samples. JOIN therefore requires one mean over all
// ranks.
void CheckJoin(const JobConfig& config, const strategy::Origins& origins,
               strategy::Diagnostics* diagnostics) {
  if (config.data().remainder() != DataConfig::JOIN) return;
  const DistributedStrategy& s = config.strategy();
  const BuildStrategy& build = s.build_strategy();
  const std::pair<bool, const char*> rows[] = {
      {s.a_sync(), "a_sync (an update does not use the gradients of all ranks) [TD1108]"},
      {s.localsgd() || s.adaptive_localsgd(), "LocalSGD (each rank updates separately) [TD1108]"},
      {s.deterministic(),
       "deterministic (the ranks without samples depend on the number of ranks) [TD1108]"},
      {s.pipeline(), "pipeline (a replica without samples is not implemented) [TD1108]"},
      {s.sync_batch_norm(),
       "sync_batch_norm (moments over a part of the ranks are not implemented) [TD1108]"},
      {build.gradient_scale_strategy() != BuildStrategy::CoeffNumDevice,
       "gradient_scale_strategy (it computes no mean over the samples) [TD1108]"},
  };
  for (const auto& [given, what] : rows) {
    if (!given) continue;
    diagnostics->Error(origins.Of("data.remainder").place,
                       absl::StrCat("remainder: JOIN cannot be combined with ", what),
                       "use PAD or DROP");
  }
}

}  // namespace

void CheckSettings(const JobConfig& config, const strategy::Origins& origins, int workers,
                   strategy::Diagnostics* diagnostics) {
  CheckModel(config, origins, diagnostics);
  CheckBatch(config, origins, workers, diagnostics);
  CheckTrainingSettings(config, origins, diagnostics);
  CheckRest(config, origins, diagnostics);
  CheckData(config.data(), origins, diagnostics);
  CheckJoin(config, origins, diagnostics);
}

void CheckTrainingSettings(const JobConfig& config, const strategy::Origins& origins,
                           strategy::Diagnostics* diagnostics) {
  CheckOptimizer(config, origins, diagnostics);
  CheckLimits(config, origins, diagnostics);
}

}  // namespace tandem::trainer
