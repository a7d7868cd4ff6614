#include "trainer/job.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "collective/communicator.h"
#include "common/base/nearest.h"
#include "common/strategy/strategy.h"
#include "common/strategy/text_file.h"
#include "proto/job.pb.h"
#include "trainer/heter_config.h"
#include "trainer/models/models.h"
#include "trainer/optimizer_config.h"
#include "trainer/pipeline_config.h"
#include "trainer/reader/open.h"
#include "trainer/sample_images.h"

namespace tandem {
namespace {

void RequirePositive(const Origins& origins, const char* field, double value,
                     Diagnostics* diagnostics) {
  if (value > 0) return;
  diagnostics->Error(origins.Of(field).place,
                     absl::StrFormat("%s is %g, but must be positive [TD1104]", field, value));
}

void CheckModel(const JobConfig& config, const Origins& origins, Diagnostics* diagnostics) {
  if (config.model().has_zoo() == config.model().has_program()) {
    diagnostics->Error(origins.Of("model").place,
                       "a job needs exactly one of model.zoo and model.program [TD1106]",
                       "model { zoo: \"lenet\" }; tandem-trainer --list_models names the models");
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
                       "data.dir is missing: where is the training data? [TD1106]",
                       "data { format: \"mnist\" dir: \"/usr/share/datasets/fashion-mnist\" }");
  }
}

void CheckBatch(const JobConfig& config, const Origins& origins, int workers,
                Diagnostics* diagnostics) {
  if (config.has_batch_size() == config.has_global_batch_size()) {
    diagnostics->Error(origins.Of("batch_size").place,
                       "a job needs exactly one of batch_size (of each worker) and "
                       "global_batch_size (over all workers) [TD1106]");
    return;
  }
  const int64_t batch = config.has_batch_size() ? config.batch_size() : config.global_batch_size();
  if (batch < 1 || batch > (1 << 24)) {
    diagnostics->Error(origins.Of("batch_size").place,
                       absl::StrFormat("a batch of %d samples [TD1104]", batch), "1 to 16777216");
  } else if (const DistributedStrategy& s = config.strategy();
             s.deterministic() && GlobalBatch(config, workers) % s.logical_shards() != 0) {
    diagnostics->Error(
        origins.Of(config.has_batch_size() ? "batch_size" : "global_batch_size").place,
        absl::StrFormat("deterministic: a batch of %d samples does not divide into %d equal "
                        "logical_shards",
                        GlobalBatch(config, workers), s.logical_shards()));
  } else if (GlobalBatch(config, workers) < int64_t{workers} * PlacesOf(config)) {
    diagnostics->Error(
        origins.Of(config.has_batch_size() ? "batch_size" : "global_batch_size").place,
        absl::StrFormat("a batch of %d samples is not enough for %d workers with %d places each",
                        batch, workers, PlacesOf(config)));
  }
}

void CheckData(const DataConfig& data, const Origins& origins, Diagnostics* diagnostics) {
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
        absl::StrFormat("%s is %d; it must be in [0, %d] [TD1104]", row.field, row.value, row.max));
  }
}

void CheckSamplesInStep(const JobConfig& config, const Origins& origins, Diagnostics* diagnostics) {
  const SourcePlace place = origins.Of("strategy.runtime_flags.use_dali").place;
  if (config.data().format() != "images") {
    diagnostics->Error(place,
                       absl::StrFormat("use_dali makes samples out of lists of JPEG images, and "
                                       "data.format is \"%s\"",
                                       config.data().format()),
                       "data { format: \"images\" }, or use_dali: false");
  }
  if (config.strategy().pipeline()) {
    diagnostics->Error(place, "use_dali with pipeline is not built yet", "use_dali: false");
  }
}

void CheckRest(const JobConfig& config, const Origins& origins, Diagnostics* diagnostics) {
  RequirePositive(origins, "epochs", static_cast<double>(config.epochs()), diagnostics);
  RequirePositive(origins, "start_timeout_ms", static_cast<double>(config.start_timeout_ms()),
                  diagnostics);
  RequirePositive(origins, "step_timeout_ms", static_cast<double>(config.step_timeout_ms()),
                  diagnostics);
  RequirePositive(origins, "data.queue_capacity", config.data().queue_capacity(), diagnostics);
  RequirePositive(origins, "optimizer.learning_rate", config.optimizer().learning_rate(),
                  diagnostics);
  const bool customized =
      config.strategy().build_strategy().gradient_scale_strategy() == BuildStrategy::Customized;
  if (customized != config.has_loss_gradient()) {
    diagnostics->Error(origins.Of("loss_gradient").place,
                       customized
                           ? "gradient_scale_strategy Customized needs loss_gradient"
                           : "loss_gradient is for gradient_scale_strategy Customized alone");
  }
  const auto formats = DataFormats();
  if (std::find(formats.begin(), formats.end(), config.data().format()) == formats.end()) {
    diagnostics->Error(origins.Of("data.format").place,
                       "there is no data.format \"" + config.data().format() + "\" [TD2005]" +
                           OrDidYouMean(config.data().format(), formats),
                       absl::StrJoin(formats, ", ") + " there are");
  }
  if (config.strategy().runtime_flags().enable_rpc_profiler() && config.profile().dir().empty()) {
    diagnostics->Error(origins.Of("strategy.runtime_flags.enable_rpc_profiler").place,
                       "enable_rpc_profiler shows calls in the profile of steps, and there is none",
                       "profile { dir: \"profile\" }");
  }
  if (SamplesInStep(config)) CheckSamplesInStep(config, origins, diagnostics);
  if (const auto place = ParsePlace(config.place()); !place.ok()) {
    diagnostics->Error(origins.Of("place").place, std::string(place.status().message()));
  }
}

// Remainder JOIN leaves ranks out of a mean: it is for those who take one mean over all ranks.
void CheckJoin(const JobConfig& config, const Origins& origins, Diagnostics* diagnostics) {
  if (config.data().remainder() != DataConfig::JOIN) return;
  const DistributedStrategy& s = config.strategy();
  const BuildStrategy& build = s.build_strategy();
  const std::pair<bool, const char*> rows[] = {
      {s.a_sync(), "a_sync: updates are not made of all ranks' gradients"},
      {s.localsgd() || s.adaptive_localsgd(), "LocalSGD: each rank steps alone"},
      {s.deterministic(), "deterministic: who has samples depends on the number of ranks"},
      {s.pipeline(), "pipeline: it is not built yet that a replica has no samples"},
      {s.sync_batch_norm(), "sync_batch_norm: it is not built yet that moments leave ranks out"},
      {build.gradient_scale_strategy() != BuildStrategy::CoeffNumDevice,
       "gradient_scale_strategy: no mean over the samples is taken"},
  };
  for (const auto& [given, what] : rows) {
    if (!given) continue;
    diagnostics->Error(origins.Of("data.remainder").place,
                       absl::StrCat("remainder JOIN does not go with ", what), "PAD or DROP");
  }
}

// a_sync_configs.lr_decay_steps stands for the decay_steps that an exponential schedule leaves
// open.
void SetDecaySteps(JobConfig* config) {
  const A_SyncConfigs& async = config->strategy().a_sync_configs();
  const LearningRateSchedule& schedule = config->optimizer().schedule();
  if (!config->strategy().a_sync() || !async.has_lr_decay_steps()) return;
  if (schedule.kind() != LearningRateSchedule::EXPONENTIAL || schedule.decay_steps() != 0) return;
  config->mutable_optimizer()->mutable_schedule()->set_decay_steps(async.lr_decay_steps());
}

// deterministic: each of `ranks` computes its logical shards one after another.
void SetLogicalShards(int ranks, JobConfig* config) {
  DistributedStrategy* strategy = config->mutable_strategy();
  if (!strategy->deterministic()) return;
  strategy->set_batch_merge_repeats(std::max(1, strategy->logical_shards() / ranks));
}

}  // namespace

EffectiveJob::EffectiveJob() : config(std::make_unique<JobConfig>()) {}
EffectiveJob::EffectiveJob(EffectiveJob&&) noexcept = default;
EffectiveJob& EffectiveJob::operator=(EffectiveJob&&) noexcept = default;
EffectiveJob::~EffectiveJob() = default;

namespace {

// What is wrong with a setting on top of the file: its origin is the place.
void AddError(const Origin& origin, const Status& status, Diagnostics* diagnostics) {
  std::string message(status.message());
  const std::string prefix = origin.ToString() + ": ";
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  diagnostics->Error(origin.place, message);
}

}  // namespace

EffectiveJob CheckJob(const TextFile* file, const JobSources& sources, int workers,
                      Diagnostics* diagnostics) {
  EffectiveJob job;
  Origins origins;
  if (file != nullptr) ParseTextProto(*file, job.config.get(), &origins, diagnostics);
  ApplyEnvironment(job.config.get(), sources.environment, &origins, diagnostics);
  for (const auto& [name, value] : sources.overrides) {
    const Origin origin = FlagOrigin(name);
    const Status status =
        ApplyOverride(job.config.get(), name, value, origin, &origins, sources.flags);
    if (!status.ok()) AddError(origin, status, diagnostics);
  }
  for (const auto& [name, value] : sources.chosen) {
    const Status status = ApplyOverride(job.config.get(), name, value, AutoOrigin(), &origins);
    if (!status.ok()) AddError(AutoOrigin(), status, diagnostics);
  }

  const JobConfig& config = *job.config;
  StrategyContext context;
  context.mode = static_cast<TrainMode>(config.mode());
  context.mode_origin = origins.Of("mode");
  context.ranks = workers * PlacesOf(config);
  ValidateStrategy(config.strategy(), context, origins, "strategy", diagnostics);
  CheckModel(config, origins, diagnostics);
  CheckBatch(config, origins, workers, diagnostics);
  CheckOptimizer(config, origins, diagnostics);
  CheckRest(config, origins, diagnostics);
  CheckData(config.data(), origins, diagnostics);
  CheckJoin(config, origins, diagnostics);
  SetDecaySteps(job.config.get());
  job.text = EffectiveText(config, origins);
  SetLogicalShards(context.ranks, job.config.get());
  CheckHeterWorkers(config, workers, sources.heter_workers, origins, diagnostics);
  SetSections(context.ranks, JobDir(sources.path), origins, diagnostics, job.config.get());
  job.notes = diagnostics->NoteText();
  return job;
}

StatusOr<EffectiveJob> LoadJob(const JobSources& sources, int workers) {
  Diagnostics diagnostics;
  TextFile file;
  const bool has_file = !sources.path.empty();
  if (has_file) {
    TD_ASSIGN_OR_RETURN(file, ReadTextFile(sources.path));
  }
  EffectiveJob job = CheckJob(has_file ? &file : nullptr, sources, workers, &diagnostics);
  TD_RETURN_IF_ERROR(diagnostics.status());
  return job;
}

std::string JobDir(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string InJobDir(const std::string& job_dir, const std::string& path) {
  return path.empty() || path[0] == '/' ? path : job_dir + path;
}

int64_t GlobalBatch(const JobConfig& config, int workers) {
  return config.has_batch_size() ? config.batch_size() * workers : config.global_batch_size();
}

int PlacesOf(const JobConfig& config) { return config.strategy().execution_strategy().cpu_num(); }

Status CheckReturn(const JobConfig& config, const char* promise) {
  const DistributedStrategy& s = config.strategy();
  const std::pair<bool, const char*> rows[] = {
      {PlacesOf(config) > 1, "cpu_num above 1"},
      {s.build_strategy().reduce_strategy() == BuildStrategy::Reduce,
       "reduce_strategy Reduce: optimizer state lies on its owner alone"},
      {s.sharding(), "sharding: parameters and optimizer state lie on their owner alone"},
      {s.localsgd() || s.adaptive_localsgd(), "localsgd: parameters differ between two averages"},
      {s.dgc(), "dgc: what a rank has not sent yet is its own"},
      {s.nccl_comm_num() > 1, "nccl_comm_num above 1"},
      {s.allreduce_choice() == DistributedStrategy::ByModel,
       "allreduce_choice ByModel: those who meet again would choose anew"},
      {s.pipeline(), "pipeline: nobody else has a section's parameters"},
      {s.auto_(), "auto"},
      {config.mode() == HYBRID && s.a_sync(),
       "a_sync in mode hybrid: a step that is done again would change rows of tables twice"},
      {config.mode() == HYBRID && s.amp(),
       "amp in mode hybrid: rows are pushed behind the check of what was reduced"},
      {config.mode() == HYBRID && s.gradient_merge(),
       "gradient_merge in mode hybrid: rows of tables are those of the last step or two"}};
  for (const auto& [given, what] : rows) {
    if (given) return Unimplemented("%s is not built yet with %s", promise, what);
  }
  return OkStatus();
}

Carrier CarrierOf(DistributedStrategy::CollectiveTransport transport) {
  switch (transport) {
    case DistributedStrategy::Auto:
      return Carrier::kAuto;
    case DistributedStrategy::Tcp:
      return Carrier::kTcp;
    case DistributedStrategy::Shm:
      return Carrier::kSharedMemory;
  }
  return Carrier::kAuto;
}

PsTransport TransportOf(RuntimeFlags::PserverTransport transport) {
  switch (transport) {
    case RuntimeFlags::Auto:
      return PsTransport::kAuto;
    case RuntimeFlags::Grpc:
      return PsTransport::kGrpc;
    case RuntimeFlags::Shm:
      return PsTransport::kShm;
  }
  return PsTransport::kAuto;
}

PsNonfinite NonfiniteOf(RuntimeFlags::NonfiniteGradients policy) {
  switch (policy) {
    case RuntimeFlags::Reject:
      return PsNonfinite::kReject;
    case RuntimeFlags::Skip:
      return PsNonfinite::kSkip;
    case RuntimeFlags::Apply:
      return PsNonfinite::kApply;
  }
  return PsNonfinite::kReject;
}

// How servers treat pushes and trainers.
void SetTreatment(const DistributedStrategy& strategy, ModeOptions* options) {
  const RuntimeFlags& flags = strategy.runtime_flags();
  const A_SyncConfigs& async = strategy.a_sync_configs();
  options->nonfinite = NonfiniteOf(flags.nonfinite_gradients());
  options->lost_after = std::chrono::seconds(flags.worker_update_interval_secs());
  options->delay_compensation = async.enable_dc_asgd() ? async.dc_asgd_lambda() : 0;
  options->split_messages = async.runtime_split_send_recv();
  options->row_cache_bytes = flags.row_cache_mb() << 20;
  options->row_cache_versions = flags.row_cache_versions();
}

// The regime of pserver mode, and its details.
void SetRegime(const DistributedStrategy& strategy, ModeOptions* options) {
  const A_SyncConfigs& c = strategy.a_sync_configs();
  if (strategy.a_sync()) {
    const bool waits = c.half_async() || c.max_staleness() >= 0;
    options->regime = c.k_steps() > 0 ? PsRegime::kGeo
                      : waits         ? PsRegime::kHalfAsync
                                      : PsRegime::kASync;
  }
  options->geo_steps = c.k_steps();
  options->max_staleness = c.max_staleness();
  options->async = {
      .merge_max = c.max_merge_var_num(),
      .dense_merge_max = strategy.runtime_flags().pserver_push_dense_merge_limit(),
      .rows_merge_max = strategy.runtime_flags().pserver_push_sparse_merge_limit(),
      .queue_max = c.send_queue_size(),
      .senders = c.thread_pool_size(),
      .merge_waits = c.send_wait_times(),
      .recv_thread = c.independent_recv_thread(),
      .sent_before_recv = c.min_send_grad_num_before_recv(),
      .sum = c.has_is_sgd_optimizer() ? c.is_sgd_optimizer() : options->optimizer.type == "sgd",
      .timeout = options->step_timeout};
  options->launch_barrier = c.launch_barrier();
  const RuntimeFlags& flags = strategy.runtime_flags();
  options->rpc_retries = flags.rpc_retry_times();
  options->transport = TransportOf(flags.pserver_transport());
  options->dispatcher = flags.dispatcher() == RuntimeFlags::HashName ? PsDispatcher::kHashName
                        : flags.dispatcher() == RuntimeFlags::SizeBalanced
                            ? PsDispatcher::kSizeBalanced
                            : PsDispatcher::kRoundRobin;
}

StatusOr<ModeOptions> ModeOptionsOf(const JobConfig& config, const RankInfo& rank,
                                    const std::string& secret) {
  const DistributedStrategy& strategy = config.strategy();
  ModeOptions options;
  options.job = config.name();
  options.rank = rank.rank;
  options.ranks = rank.size;
  options.secret = secret;
  options.optimizer = OptimizerSpecOf(config);
  options.seed = config.seed();
  options.fuse_all_reduce = strategy.fuse_all_reduce_ops();
  options.group_rule = {strategy.fuse_grad_size_in_mb(), strategy.fuse_grad_size_in_tflops(),
                        strategy.last_comm_group_size_mb()};
  options.sync_batch_norm = strategy.sync_batch_norm() && rank.size > 1;
  options.update_by_owner =
      strategy.build_strategy().reduce_strategy() == BuildStrategy::Reduce && rank.size > 1;
  options.fuse_broadcast = strategy.build_strategy().fuse_broadcast_ops();
  if (strategy.sharding() && rank.size > 1) {
    const double mb = strategy.sharding_configs().fuse_broadcast_mb();
    const ShardingConfigs& configs = strategy.sharding_configs();
    const int group = configs.sharding_group_size();
    options.shard = ShardOptions{.segment_bytes = static_cast<int64_t>(mb * (1 << 20)),
                                 .group = configs.hybrid_dp() && group < rank.size ? group : 0};
  }
  const auto place = ParsePlace(config.place());
  options.between_devices = place.ok() && place->kind != PlaceKind::kCpu;
  options.half_communication = strategy.fp16_allreduce();
  options.tree_order = strategy.deterministic();
  if (strategy.localsgd()) {
    const LocalSgdConfigs& local = strategy.localsgd_configs();
    options.average = AverageRule{local.k_steps(), local.begin_step()};
  } else if (strategy.adaptive_localsgd()) {
    const AdaptiveLocalSgdConfigs& local = strategy.adaptive_localsgd_configs();
    options.average = AverageRule{local.init_k_steps(), local.begin_step(), /*adaptive=*/true};
  }
  if (strategy.dgc()) {
    const DgcConfigs& dgc = strategy.dgc_configs();
    options.dgc = DgcRule{dgc.rampup_begin_step(), dgc.rampup_step()};
    if (dgc.sparsity_size() > 0) {
      options.dgc->sparsity.assign(dgc.sparsity().begin(), dgc.sparsity().end());
    }
  }
  options.start_timeout = std::chrono::milliseconds(config.start_timeout_ms());
  options.step_timeout = std::chrono::milliseconds(config.step_timeout_ms());
  if (config.mode() == PSERVER || config.mode() == HYBRID) {
    options.step_timeout =
        std::min<Duration>(options.step_timeout,
                           std::chrono::milliseconds(strategy.runtime_flags().rpc_deadline_ms()));
  }
  options.servers = rank.pservers;
  options.rpc_profiler = strategy.runtime_flags().enable_rpc_profiler();
  SetRegime(strategy, &options);
  SetTreatment(strategy, &options);
  options.slice_var_up = strategy.runtime_flags().slice_var_up();
  options.min_block_size = strategy.runtime_flags().min_block_size();
  options.rendezvous = rank.rendezvous;
  options.listen_host = rank.listen_host;
  options.network_allowed = rank.network_allowed;
  options.peers_return = rank.peers_return;
  options.restarted = rank.restarted;
  options.launcher = rank.launcher;
  options.members = rank.members;
  options.world_version = rank.world_version;
  options.has_state = rank.has_state;
  options.carrier = CarrierOf(strategy.collective_transport());
  options.comm_num = strategy.nccl_comm_num();
  options.one_comm_at_a_time = strategy.sync_nccl_allreduce();
  if (strategy.pipeline()) {
    options.sections = std::max(1, config.model().sections());
    options.micro_batches = strategy.pipeline_configs().micro_batch();
  }
  if (rank.heter_workers > 0) options.sections = 2;
  options.heter_workers = rank.heter_workers;
  options.device_guard = strategy.a_sync_configs().heter_worker_device_guard();
  options.choose_by_model = strategy.allreduce_choice() == DistributedStrategy::ByModel;
  if (strategy.use_hierarchical_allreduce()) {
    options.group = strategy.hierarchical_allreduce_inter_nranks();
    options.group_by_leaders =
        strategy.hierarchical_allreduce_form() == DistributedStrategy::Leaders;
  }
  return options;
}

StatusOr<std::unique_ptr<ModeDriver>> MakeMode(const JobConfig& config,
                                               const ModeOptions& options) {
  const bool servers = config.mode() == PSERVER || config.mode() == HYBRID;
  if (servers && options.servers.empty()) {
    return InvalidArgument(
        "mode %s needs servers [TD3003]: start the job with tandemrun "
        "--servers=N, or give --pservers=host:port,...",
        Mode_Name(config.mode()));
  }
  const bool meets = config.mode() == COLLECTIVE || config.mode() == HYBRID;
  if (meets && options.ranks > 1 && options.rendezvous.empty()) {
    return InvalidArgument(
        "mode %s needs a rendezvous [TD3003]: start the job with tandemrun "
        "%s, or give --rendezvous=host:port of rank 0, file:///folder or etcd://host:port/prefix",
        Mode_Name(config.mode()), servers ? "--mode=hybrid" : "--nproc=N");
  }
  switch (config.mode()) {
    case LOCAL:
      if (options.ranks != 1) {
        return InvalidArgument(
            "mode LOCAL is one process, but this is one of %d [TD3003]: say "
            "--mode=collective or --mode=pserver",
            options.ranks);
      }
      return MakeLocalMode(options);
    case PSERVER:
      return MakePserverMode(options);
    case COLLECTIVE:
      if (config.strategy().pipeline()) return MakePipelineMode(options);
      return MakeCollectiveMode(options, {});
    case HYBRID:
      return MakeHybridMode(options);
  }
  return InvalidArgument("mode %d is unknown", static_cast<int>(config.mode()));
}

}  // namespace tandem
