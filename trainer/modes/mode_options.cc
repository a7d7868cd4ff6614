#include "trainer/modes/mode_options.h"

#include <algorithm>
#include <chrono>

#include "collective/communicator.h"
#include "proto/job.pb.h"
#include "trainer/job/optimizer_config.h"

namespace tandem::trainer {
namespace {

collective::TransportKind TransportKindOf(DistributedStrategy::CollectiveTransport transport) {
  switch (transport) {
    case DistributedStrategy::Auto:
      return collective::TransportKind::kAuto;
    case DistributedStrategy::Tcp:
      return collective::TransportKind::kTcp;
    case DistributedStrategy::Shm:
      return collective::TransportKind::kSharedMemory;
  }
  return collective::TransportKind::kAuto;
}

ps::PsTransport TransportOf(RuntimeFlags::PserverTransport transport) {
  switch (transport) {
    case RuntimeFlags::Auto:
      return ps::PsTransport::kAuto;
    case RuntimeFlags::Grpc:
      return ps::PsTransport::kGrpc;
    case RuntimeFlags::Shm:
      return ps::PsTransport::kShm;
  }
  return ps::PsTransport::kAuto;
}

ps::PsNonfinite NonfiniteOf(RuntimeFlags::NonfiniteGradients policy) {
  switch (policy) {
    case RuntimeFlags::Reject:
      return ps::PsNonfinite::kReject;
    case RuntimeFlags::Skip:
      return ps::PsNonfinite::kSkip;
    case RuntimeFlags::Apply:
      return ps::PsNonfinite::kApply;
  }
  return ps::PsNonfinite::kReject;
}

// Sets how servers treat pushes and trainers.
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

// Sets the regime of pserver mode and its parameters.
void SetRegime(const DistributedStrategy& strategy, ModeOptions* options) {
  const A_SyncConfigs& c = strategy.a_sync_configs();
  if (strategy.a_sync()) {
    const bool waits = c.half_async() || c.max_staleness() >= 0;
    options->regime = c.k_steps() > 0 ? PsSyncMode::kGeo
                      : waits         ? PsSyncMode::kHalfAsync
                                      : PsSyncMode::kASync;
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
  options->dispatcher = flags.dispatcher() == RuntimeFlags::HashName ? ps::PsDispatcher::kHashName
                        : flags.dispatcher() == RuntimeFlags::SizeBalanced
                            ? ps::PsDispatcher::kSizeBalanced
                            : ps::PsDispatcher::kRoundRobin;
}

}  // namespace

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
  options.replaces = rank.replaces;
  options.members = rank.members;
  options.world_version = rank.world_version;
  options.has_state = rank.has_state;
  options.carrier = TransportKindOf(strategy.collective_transport());
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
        "mode %s needs pservers, but none are given [TD3003]; hint: start the job with tandemrun "
        "--servers=N, or set --pservers=HOST:PORT,...",
        Mode_Name(config.mode()));
  }
  const bool meets = config.mode() == COLLECTIVE || config.mode() == HYBRID;
  if (meets && options.ranks > 1 && options.rendezvous.empty()) {
    return InvalidArgument(
        "mode %s needs a rendezvous, but none is given [TD3003]; hint: start the job with "
        "tandemrun %s, or set --rendezvous=HOST:PORT of rank 0, file:///DIR or "
        "etcd://HOST:PORT/PREFIX",
        Mode_Name(config.mode()), servers ? "--mode=hybrid" : "--nproc=N");
  }
  switch (config.mode()) {
    case LOCAL:
      if (options.ranks != 1) {
        return InvalidArgument(
            "mode LOCAL has one process, but the job has %d [TD3003]; hint: --mode=collective or "
            "--mode=pserver",
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
  return InvalidArgument("training mode %d is unknown", static_cast<int>(config.mode()));
}

}  // namespace tandem::trainer
