#include "trainer/modes/pserver_mode.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/threads/time_slice.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/modes/gradient_groups.h"
#include "trainer/modes/mode_counts.h"
#include "trainer/modes/pserver_comm.h"
#include "trainer/modes/pserver_program.h"
#include "trainer/modes/server_silence.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/modes/table_checks.h"
#include "trainer/ps/file_rows_wait.h"
#include "trainer/ps/rpc_log.h"
#include "trainer/ps/server_waits.h"
#include "trainer/ps/table_file.h"

namespace tandem::trainer {
namespace {

class PserverMode final : public Membership,
                          public StateKeeper,
                          public ServerTables,
                          public StepHooks {
 public:
  explicit PserverMode(const PserverOptions& options) : options_(options) {}

  PserverProgram& programs() { return program_; }
  PserverComm& comm() { return comm_; }
  const RpcLog& calls() const { return calls_; }

  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap& state,
                         int64_t step, const Stop& stop) override;
  std::vector<double> WaitedSeconds() const override { return waits_.Seconds(); }
  Status EndSteps() override {
    return options_.regime == PsSyncMode::kLocalSteps ? comm_.Finish() : OkStatus();
  }
  Status Finish() override;
  // Reports to the servers that this trainer stops, if `why` is CANCELLED. After a failure Abort
  // reports nothing: the servers notice that the trainer is unresponsive and name it to the other
  // trainers.
  void Abort(const Status& why) override {
    if (why.code() == StatusCode::kCancelled && comm_.client()) (void)comm_.client()->Complete();
  }

  StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                            Device& device) override;
  StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                             Device& host) override {
    return ParamsOf(program, scope, host);
  }

  Status Gather() override {
    if (program_.tables().empty()) return OkStatus();
    TD_REQUIRE(scope_ != nullptr);
    return program_.tables().Gather(*comm_.client(), comm_.AwaitedVersion(), *scope_);
  }
  std::function<Status(const std::string& path)> Writer() override;
  Status ReadFrom(const std::string& path) override;

  Status BeginStep(int64_t step, float learning_rate) override {
    TD_REQUIRE(scope_ != nullptr && comm_.client() != nullptr);
    comm_.BeginStep(step, learning_rate);
    if (options_.sync() && options_.common.leader() && options_.common.ranks > 1) {
      waits_.BeginStep(step, *comm_.client());
    }
    return options_.updates_locally() ? SetLearningRate(*scope_, learning_rate) : OkStatus();
  }
  void SetEventTime(int64_t ms) override { comm_.SetEventTime(ms); }
  bool looks_ahead() const override { return comm_.looks_ahead(); }
  void Foresee(const NextBatchHint& next) override { comm_.Foresee(next); }
  std::string TakeMessage(int64_t) override { return comm_.TakeWarning(); }
  void AddCounts(ModeCounts* counts) const override;

 private:
  ps::PsOptions ClientOptions();
  ps::PsOptimizer LocalUpdatesOptimizer() const;
  StatusOr<int64_t> FirstStep(ps::PsClient& client, uint64_t version, int64_t step) const;
  Status CountSlices(const std::vector<ps::PsVariable>& variables);
  // Calls `fetch`, which waits for the initial values, as long as the leader loads files of rows.
  StatusOr<uint64_t> AwaitValues(ps::PsClient& client,
                                 const std::function<StatusOr<uint64_t>()>& fetch) const;
  StatusOr<std::vector<ps::PsSlot>> SlotsOf(const TensorMap& state) const;

  const PserverOptions options_;
  exec::Scope* scope_ = nullptr;  // scope of the training program; set by Join
  std::string table_file_;        // file with the rows of the checkpoint to resume from
  // Number of slices on all servers, and number of elements on the server with the most.
  int64_t slices_ = 0, largest_share_ = 0;
  RpcLog calls_{options_.rpc_profiler};
  ServerWaits waits_;  // waiting times of all trainers; used on rank 0 only
  PserverProgram program_{options_};
  PserverComm comm_{options_, program_.tables()};  // last member: its client calls other members
};

StatusOr<std::vector<ps::PsSlot>> PserverMode::SlotsOf(const TensorMap& state) const {
  std::vector<ps::PsSlot> slots;
  for (const std::string& param : program_.params()) {
    TD_ASSIGN_OR_RETURN(const auto names, graph::OptimizerSlots(options_.common.optimizer, param));
    for (const std::string& name : names) {
      const auto it = state.find(name);
      if (it == state.end()) continue;
      const auto values = it->second.span<float>();
      slots.push_back({param, name, {values.begin(), values.end()}});
    }
  }
  return slots;
}

ps::PsOptions PserverMode::ClientOptions() {
  ps::PsOptions ps;
  ps.job = options_.common.job;
  ps.trainer = options_.common.rank;
  ps.trainers = options_.common.ranks;
  ps.security.secret = options_.common.secrets.job;
  ps.rules.settings = options_.common.agreement;
  ps.security.tls = options_.common.secrets.tls;
  ps.security.insecure_allow_network = options_.common.secrets.insecure_allow_network;
  ps.patience.start_timeout = options_.common.start_timeout;
  ps.patience.step_timeout = options_.common.step_timeout;
  TellOfSilence(options_, ps);
  ps.patience.wait_for_servers = options_.launch_barrier;
  ps.patience.retries = options_.rpc_retries;
  ps.transport = options_.transport;
  ps.split_messages = options_.split_messages;
  ps.rules.nonfinite = options_.nonfinite;
  ps.rules.lost_after = options_.lost_after;
  ps.rules.delay_compensation = options_.delay_compensation;
  ps.rules.each_step_once = options_.continues_steps;
  ps.row_cache.bytes = static_cast<size_t>(options_.row_cache_bytes);
  ps.row_cache.versions = static_cast<uint64_t>(options_.row_cache_versions);
  // The optimizer update uses the norm of a parameter. Therefore one server must store the whole
  // parameter.
  const bool whole = program_.whole_params();
  LOG_IF(INFO, whole && options_.slice_var_up && options_.common.leader())
      << "slice_var_up has no effect: the update by " << options_.common.optimizer.type
      << " needs norms of complete parameters";
  ps.partition.slice_var_up = options_.slice_var_up && !whole;
  ps.partition.min_block_size = options_.min_block_size;
  ps.partition.dispatcher = options_.dispatcher;
  ps.callbacks.on_wait = [](const std::string& message) { LOG(INFO) << message; };
  ps.callbacks.on_call = [this](const ps::PsCall& call) { calls_.Add(call); };
  return ps;
}

// Returns what the servers do with the pushes of trainers that update locally. With geo they add
// the differences to the parameters.
ps::PsOptimizer PserverMode::LocalUpdatesOptimizer() const {
  if (options_.regime != PsSyncMode::kLocalSteps) return {};
  const graph::FragmentRule& rule = options_.local_steps;
  // Without an outer optimizer, the parameters become the mean of the trainers' parameters.
  return {.type = "buffered_momentum",
          .attrs = {{"gradients", options_.quorum},
                    {"rate", rule.nesterov ? rule.learning_rate : 1.0},
                    {"mu", rule.nesterov ? rule.momentum : 0.0},
                    {"use_nesterov", rule.nesterov}}};
}

Status PserverMode::CountSlices(const std::vector<ps::PsVariable>& variables) {
  ps::PartitionOptions options = ClientOptions().partition;
  options.servers = static_cast<int>(options_.servers.size());
  TD_ASSIGN_OR_RETURN(const std::vector<ps::PsSlice> blocks, ps::Partition(variables, options));
  std::vector<int64_t> elements(options_.servers.size());
  for (const ps::PsSlice& block : blocks) {
    TD_REQUIRE(block.server >= 0 && static_cast<size_t>(block.server) < elements.size());
    elements[static_cast<size_t>(block.server)] += block.numel;
  }
  slices_ = static_cast<int64_t>(blocks.size());
  largest_share_ = *std::max_element(elements.begin(), elements.end());
  return OkStatus();
}

StatusOr<int64_t> PserverMode::Join(const graph::Program& program, exec::Scope& scope,
                                    const TensorMap& state, int64_t step, const Stop& stop) {
  scope_ = &scope;
  comm_.ForgetStep();
  // Rejects the rules of tables in the scope. The program no longer contains the rules of tables
  // that only servers store, so those rules are accepted.
  TD_RETURN_IF_ERROR(RefuseTableRules(program));
  const ShortTimeSlice short_slice;  // threads that gRPC starts here get a short time slice
  ps::PsOptions ps = ClientOptions();
  ps.callbacks.stop = stop;
  TD_ASSIGN_OR_RETURN(auto connected, ps::PsClient::Connect(options_.servers, ps));
  comm_.SetClient(std::move(connected));
  ps::PsClient& client = *comm_.client();
  std::vector<ps::PsVariable> variables;
  std::vector<ps::PsTensor> tensors;
  CpuDevice host;
  TD_ASSIGN_OR_RETURN(const TensorMap values, ParamsOf(program, scope, host));
  for (const std::string& name : program_.params()) {
    const Tensor& tensor = values.at(name);
    variables.push_back({name, tensor.shape()});
    tensors.push_back({name, tensor.span<float>().data(), tensor.numel()});
  }
  TD_RETURN_IF_ERROR(CountSlices(variables));
  ps::PsOptimizer optimizer = LocalUpdatesOptimizer();
  std::vector<ps::PsSlot> slots;
  if (!options_.updates_locally()) {
    TD_ASSIGN_OR_RETURN(optimizer, ToPsOptimizer(options_.common.optimizer));
    TD_ASSIGN_OR_RETURN(slots, SlotsOf(state));
    for (ps::PsSlot& slot : program_.tables().Scalars(state)) slots.push_back(std::move(slot));
  }
  TD_RETURN_IF_ERROR(client
                         .Configure(variables,
                                    options_.sync() ? ps::PsMode::kSync : ps::PsMode::kASync,
                                    optimizer, program_.tables().Definitions(options_.common.seed))
                         .status());
  LOG_IF(INFO, options_.common.leader())
      << client.shm_servers() << " of " << options_.servers.size() << " pservers use shared memory";
  std::vector<ps::PsTableRows> rows;
  if (options_.common.leader() && step > 0) {
    TD_ASSIGN_OR_RETURN(rows, program_.tables().Rows(scope, state, options_.common.seed));
  }
  TD_RETURN_IF_ERROR(program_.tables().CheckFiles(options_.init));
  bool read = step > 0 || options_.init.empty();
  const auto source = [&](const ps::RowSink& take) -> Status {
    // Reads the files only if a server has no values, and all files before any server gets a row.
    if (!read) {
      TD_ASSIGN_OR_RETURN(rows, program_.tables().ReadFiles(options_.init));
      read = true;
    }
    for (const ps::PsTableRows& table : rows) TD_RETURN_IF_ERROR(take(table));
    if (table_file_.empty()) return OkStatus();
    return ReadTableFile(table_file_, [&take](const ps::PsTableRows& piece, const ps::PsTable&) {
      return take(piece);
    });
  };
  TD_ASSIGN_OR_RETURN(const uint64_t version, AwaitValues(client, [&] {
                        return client.InitOrFetch(tensors, static_cast<uint64_t>(step), slots,
                                                  source);
                      }));
  // Copies the pulled values into the scope. On the CPU `values` share the scope's memory. On a
  // device `values` are copies.
  TD_RETURN_IF_ERROR(PutInto(values, "of the pservers", scope));
  comm_.Begin(values, version, program_.fragments());
  return FirstStep(client, version, step);
}

// Returns the step with which this trainer begins. `version`: version of the servers' values;
// `step`: the step of the checkpoint that the trainer has read, or 0.
StatusOr<int64_t> PserverMode::FirstStep(ps::PsClient& client, uint64_t version,
                                         int64_t step) const {
  // In sync mode the version is the number of steps. In the other modes the version counts the
  // pushes of all trainers, and each trainer counts its own steps.
  if (options_.sync()) return static_cast<int64_t>(version);
  const bool local_steps = options_.regime == PsSyncMode::kLocalSteps;
  if (!options_.continues_steps && !local_steps) return step;
  TD_ASSIGN_OR_RETURN(const std::vector<ps::PsServerInfo> servers, client.ServerInfo());
  if (!local_steps) return static_cast<int64_t>(ps::FirstStep(servers));
  // Not all servers have a part of each push, because fragments are pushed at different steps.
  auto next = static_cast<uint64_t>(step);
  for (const ps::PsServerInfo& server : servers) next = std::max(next, server.pushed_steps);
  return static_cast<int64_t>(next);
}

StatusOr<uint64_t> PserverMode::AwaitValues(
    ps::PsClient& client, const std::function<StatusOr<uint64_t>()>& fetch) const {
  if (options_.init.empty() || options_.common.leader()) return fetch();
  const auto rows = [&client]() -> StatusOr<uint64_t> {
    TD_ASSIGN_OR_RETURN(const std::vector<ps::PsServerInfo> servers, client.ServerInfo());
    uint64_t sent = 0;
    for (const ps::PsServerInfo& server : servers) sent += server.rows;
    return sent;
  };
  return AwaitFileRows(fetch, rows, RealClock());
}

std::function<Status(const std::string& path)> PserverMode::Writer() {
  if (program_.tables().Distributed().empty()) return nullptr;
  return [this](const std::string& path) {
    return program_.tables().Write(*comm_.client(), comm_.AwaitedVersion(), path);
  };
}

Status PserverMode::ReadFrom(const std::string& path) {
  table_file_ = path;
  const std::string table = program_.tables().Distributed();
  if (path.empty() == table.empty()) return OkStatus();
  if (path.empty()) {
    return FailedPrecondition(
        "the checkpoint has no rows of the distributed table \"%s\" [TD4021]; hint: resume without "
        "is_distributed, or start with another checkpoint.dir",
        table);
  }
  return RefuseTableFile(path);
}

Status PserverMode::Finish() {
  TD_RETURN_IF_ERROR(comm_.Finish());
  TD_RETURN_IF_ERROR(Gather());
  if (options_.common.leader()) program_.tables().Count(*comm_.client());
  return comm_.client()->Complete();
}

StatusOr<TensorMap> PserverMode::State(const graph::Program& program, const exec::Scope& scope,
                                       Device& device) {
  TD_RETURN_IF_ERROR(Gather());
  TD_ASSIGN_OR_RETURN(TensorMap state, ScopeState(program, scope, device));
  if (options_.updates_locally()) return state;  // the servers have another optimizer
  TD_RETURN_IF_ERROR(program_.tables().AddState(*comm_.client(), device, state));
  TD_ASSIGN_OR_RETURN(const std::vector<ps::PsSlot> slots, comm_.client()->PullState());
  for (const ps::PsSlot& slot : slots) {
    const Shape whole = program.FindVar(slot.variable)->desc.shape;
    const auto n = static_cast<int64_t>(slot.values.size());
    const Shape shape = n == whole.numel() ? whole : Shape{n};
    TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({DType::kF32, shape}, device));
    std::memcpy(tensor.data(), slot.values.data(), tensor.bytes());
    state[slot.slot] = std::move(tensor);
  }
  return state;
}

void PserverMode::AddCounts(ModeCounts* counts) const {
  PsCounts& own = counts->ps;
  own.pushes = static_cast<double>(comm_.pushes());
  own.pulls = static_cast<double>(comm_.pulls());
  calls_.AddBytes(&own);
  own.slices = static_cast<double>(slices_);
  own.largest_share = static_cast<double>(largest_share_);
  if (comm_.client() == nullptr) return;
  own.shm_calls = static_cast<double>(comm_.client()->shm_calls());
  const ps::PsCacheCounts cache = comm_.client()->row_cache();
  own.row_cache_hits = static_cast<double>(cache.hits);
  own.row_cache_misses = static_cast<double>(cache.misses);
  program_.tables().AddCounts(&own);
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

ps::PsDispatcher DispatcherOf(RuntimeFlags::Dispatcher dispatcher) {
  switch (dispatcher) {
    case RuntimeFlags::RoundRobin:
      return ps::PsDispatcher::kRoundRobin;
    case RuntimeFlags::HashName:
      return ps::PsDispatcher::kHashName;
    case RuntimeFlags::SizeBalanced:
      return ps::PsDispatcher::kSizeBalanced;
  }
  return ps::PsDispatcher::kRoundRobin;
}

// Sets the options that determine how servers treat pushes and lost trainers.
void SetTreatment(const DistributedStrategy& strategy, PserverOptions* options) {
  const RuntimeFlags& flags = strategy.runtime_flags();
  const A_SyncConfigs& async = strategy.a_sync_configs();
  options->nonfinite = NonfiniteOf(flags.nonfinite_gradients());
  options->lost_after = std::chrono::seconds(flags.worker_update_interval_secs());
  options->delay_compensation = async.enable_dc_asgd() ? async.dc_asgd_lambda() : 0;
  options->split_messages = async.runtime_split_send_recv();
  options->row_cache_bytes = flags.row_cache_mb() << 20;
  options->row_cache_versions = flags.row_cache_versions();
}

// Sets the update mode (sync, half-async, async or geo) and its options.
void SetRegime(const DistributedStrategy& strategy, PserverOptions* options) {
  const A_SyncConfigs& c = strategy.a_sync_configs();
  if (strategy.a_sync()) {
    const bool waits = c.half_async() || c.max_staleness() >= 0;
    options->regime = strategy.localsgd() ? PsSyncMode::kLocalSteps
                      : c.k_steps() > 0   ? PsSyncMode::kGeo
                      : waits             ? PsSyncMode::kHalfAsync
                                          : PsSyncMode::kASync;
  }
  options->geo_steps = c.k_steps();
  options->max_staleness = c.max_staleness();
  options->async = {.merge_max = c.max_merge_var_num(),
                    .dense_merge_max = strategy.runtime_flags().pserver_push_dense_merge_limit(),
                    .rows_merge_max = strategy.runtime_flags().pserver_push_sparse_merge_limit(),
                    .queue_max = c.send_queue_size(),
                    .senders = c.thread_pool_size(),
                    .merge_waits = c.send_wait_times(),
                    .recv_thread = c.independent_recv_thread(),
                    .sent_before_recv = c.min_send_grad_num_before_recv(),
                    .sum = c.has_is_sgd_optimizer() ? c.is_sgd_optimizer()
                                                    : options->common.optimizer.type == "sgd",
                    .timeout = options->common.step_timeout};
}

// Sets the options of localsgd.
void SetLocalSteps(const DistributedStrategy& strategy, PserverOptions* options) {
  const LocalSgdConfigs& local = strategy.localsgd_configs();
  options->local_steps = {.k_steps = local.k_steps(),
                          .fragments = local.fragments(),
                          .delay = local.delay(),
                          .nesterov = local.outer_optimizer() == "nesterov",
                          .learning_rate = local.outer_learning_rate(),
                          .momentum = local.outer_momentum()};
  options->quorum = local.quorum() > 0 ? local.quorum() : options->common.ranks;
}

// Sets the options for calls to the servers, and for the placement of parameters on servers.
void SetCalls(const DistributedStrategy& strategy, PserverOptions* options) {
  const RuntimeFlags& flags = strategy.runtime_flags();
  options->launch_barrier = strategy.a_sync_configs().launch_barrier();
  options->rpc_profiler = flags.enable_rpc_profiler();
  options->rpc_retries = flags.rpc_retry_times();
  options->transport = TransportOf(flags.pserver_transport());
  options->dispatcher = DispatcherOf(flags.dispatcher());
  options->slice_var_up = flags.slice_var_up();
  options->min_block_size = flags.min_block_size();
}

}  // namespace

PserverOptions PserverOptionsOf(const JobConfig& config, const RankInfo& rank,
                                CommonOptions common) {
  PserverOptions options;
  options.common = std::move(common);
  options.servers = rank.pservers;
  options.replaces = rank.replaces;
  SetRegime(config.strategy(), &options);
  SetLocalSteps(config.strategy(), &options);
  SetCalls(config.strategy(), &options);
  SetTreatment(config.strategy(), &options);
  for (const TableInitConfig& init : config.model().init()) {
    options.init.push_back({init.table(), InJobDir(options.common.job_dir, init.file())});
  }
  options.has_event_time = config.data().has_stream();
  options.continues_steps = options.has_event_time && !options.sync() && !options.updates_locally();
  return options;
}

TrainingMode MakePserverMode(const PserverOptions& options) {
  const auto mode = std::make_shared<PserverMode>(options);
  return {.owner = mode,
          .programs = &mode->programs(),
          .membership = mode.get(),
          .state = mode.get(),
          .steps = mode.get(),
          .training = &mode->comm().training(),
          .evaluation = &mode->comm().evaluation(),
          .tables = mode.get(),
          .calls = options.rpc_profiler ? &mode->calls() : nullptr,
          .evaluation_part = WholeOnRank0(options.common.rank)};
}

}  // namespace tandem::trainer
