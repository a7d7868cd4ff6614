#include "trainer/modes/collective_mode.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/base/step_number.h"
#include "proto/job.pb.h"
#include "trainer/modes/collective_comm.h"
#include "trainer/modes/collective_communicators.h"
#include "trainer/modes/collective_program.h"
#include "trainer/modes/comms/rank_waits.h"
#include "trainer/modes/mode_counts.h"
#include "trainer/modes/state/common_state.h"
#include "trainer/modes/state/rank_states.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/modes/table_checks.h"

namespace tandem::trainer {
namespace {

// Pause between two attempts to connect. Without the pause, this rank would retry in a busy loop if
// attempts fail immediately (for example because a port is still in use).
constexpr Duration kMeetPause = std::chrono::milliseconds(50);

// Returns whether the peer that caused `failure` may return. ALREADY_EXISTS is such a failure,
// because a returning rank stays registered until its peers notice the end of its previous
// connection.
bool MayReturn(const Status& failure) {
  return failure.code() == StatusCode::kUnavailable || failure.code() == StatusCode::kAborted ||
         failure.code() == StatusCode::kDeadlineExceeded ||
         failure.code() == StatusCode::kAlreadyExists;
}

class CollectiveMode final : public Membership, public StateKeeper, public StepHooks {
 public:
  CollectiveMode(const CollectiveOptions& options,
                 std::vector<std::unique_ptr<collective::Communicator>> communicators)
      : options_(options), communicators_(options_, std::move(communicators)) {}
  ~CollectiveMode() override { comm_.EndFlights(); }

  CollectiveProgram& programs() { return program_; }
  CollectiveComm& comm() { return comm_; }

  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap& state,
                         int64_t step, const Stop& stop) override;
  StatusOr<int64_t> Recover(const Status& why, const graph::Program& program, StepRollback& point,
                            const Stop& stop) override;
  StatusOr<bool> Stopping(bool mine) override {
    if (!state_is_spread()) return mine;
    // Between two averages the ranks do not wait for each other, so they stop only after one.
    if (fragments() && !fragments()->TakeApplied()) return false;
    return AnyRank(communicators_.hosts(), mine, comm_.timeout());
  }
  StatusOr<int64_t> ValueOfRank0(int64_t value) override;
  StatusOr<std::vector<int64_t>> ValuesOfRanks(int64_t value) override;
  std::vector<double> WaitedSeconds() const override { return waits_.Seconds(); }
  Status Finish() override;
  void Abort(const Status& why) override { communicators_.Abort(why); }
  void ReleaseDeviceResources() override {
    // An average in flight reads and writes tensors that the caller frees after this call. The wait
    // ends, because an aborted communicator ends its calls.
    if (comm_.overlapped_in_flight()) {
      communicators_.Abort(Cancelled("the training ended before the average of a fragment"));
      comm_.WaitForOverlapped(Time::max()).IgnoreError();
    }
    if (!communicators_.between_devices()) return;
    comm_.EndFlights();
    communicators_.Clear();
  }

  bool state_is_spread() const override { return program_.spread(); }
  bool params_are_spread() const override { return !program_.params().empty(); }
  StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                            Device& device) override;
  StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                             Device& host) override;

  Status BeginStep(int64_t step, float learning_rate) override {
    TD_REQUIRE(scope_ != nullptr);
    if (dgc()) TD_RETURN_IF_ERROR(dgc()->BeginStep(*scope_, step));
    if (fragments()) TD_RETURN_IF_ERROR(fragments()->BeginStep(*scope_, step));
    TD_RETURN_IF_ERROR(waits_.BeginStep(step, communicators_.hosts(), comm_.timeout()));
    return SetLearningRate(*scope_, learning_rate);
  }
  std::string TakeMessage(int64_t step) override;
  void AddCounts(ModeCounts* counts) const override;

 private:
  // Returns how long ranks that reconnect wait for each other. The time is long, because a peer may
  // be in an evaluation, or may hang until the launcher replaces it.
  Duration Patience() const {
    return 2 * (options_.common.start_timeout + options_.common.step_timeout);
  }
  Status Connect(Duration timeout, const Stop& stop) {
    TD_RETURN_IF_ERROR(communicators_.Connect(scope_->device(), timeout, stop, comm_.Reduced()));
    return comm_.AllocateBuckets();
  }
  // Connects to the peers and synchronises the state. Repeats both steps until they succeed.
  StatusOr<int64_t> Meet(const graph::Program& program, StepRollback* point, int64_t begin,
                         Duration timeout, const Stop& stop);
  std::optional<DgcState>& dgc() { return program_.dgc(); }
  std::optional<FragmentState>& fragments() { return program_.fragments(); }
  int AverageSteps() const;  // returns k of adaptive_localsgd; 0: adaptive_localsgd is not used

  const CollectiveOptions options_;
  exec::Scope* scope_ = nullptr;  // scope of the training program; set by Join
  int reported_steps_ = 0;        // value of AverageSteps() at the last report
  int recoveries_ = 0;
  CollectiveProgram program_{options_};
  Mutex pause_mu_;
  CondVar pause_;
  RankWaits waits_;
  CollectiveComm comm_{options_, communicators_, waits_};
  CollectiveCommunicators communicators_;  // last member, because its threads use the other members
};

StatusOr<int64_t> CollectiveMode::Join(const graph::Program& program, exec::Scope& scope,
                                       const TensorMap& state, int64_t step, const Stop& stop) {
  TD_RETURN_IF_ERROR(RefuseTableRules(program));
  scope_ = &scope;
  if (options_.returns.peers_return) {
    const bool in_midst = options_.returns.restarted || options_.returns.has_state;
    return Meet(program, nullptr, step, in_midst ? Patience() : options_.common.start_timeout,
                stop);
  }
  if (communicators_.empty()) TD_RETURN_IF_ERROR(Connect(options_.common.start_timeout, stop));
  if (fragments() && options_.common.leader()) {
    TD_RETURN_IF_ERROR(fragments()->Start(scope, state));
  }

  // All ranks receive the step, the parameters and the state of rank 0.
  const Time deadline = SteadyNow() + options_.common.start_timeout;
  int64_t agreed = step;
  std::vector<std::shared_ptr<collective::Work>> works;
  collective::Communicator& first = communicators_.Numbered(0);
  works.push_back(communicators_.hosts().Broadcast(&agreed, 1, DType::kI64, 0,
                                                   {.what = "step", .deadline = deadline}));
  for (const auto& [name, tensor] : scope.tensors()) {
    if (program_.slots().Holds(name) || program_.params().Holds(name)) continue;
    works.push_back(first.Broadcast(tensor.data(), static_cast<size_t>(tensor.numel()),
                                    tensor.dtype(), 0, {.what = name, .deadline = deadline}));
  }
  // Waits for all broadcasts, even after an error, because the broadcasts use this stack frame and
  // the scope. The deadline ends each broadcast.
  Status status;
  for (const auto& work : works) {
    const Status ended = work->Wait(Time::max());
    if (status.ok()) status = ended;
  }
  TD_RETURN_IF_ERROR(status);
  TD_RETURN_IF_ERROR(program_.slots().Scatter(communicators_.hosts(), state, scope, deadline));
  TD_RETURN_IF_ERROR(program_.params().Scatter(communicators_.hosts(), state, scope, deadline));
  if (dgc()) TD_RETURN_IF_ERROR(dgc()->Split(scope, agreed, options_.common.ranks));
  if (fragments()) {
    TD_RETURN_IF_ERROR(fragments()->Read(scope));
    TD_RETURN_IF_ERROR(RankStates(fragments()->common())
                           .Scatter(communicators_.hosts(), program, state, scope, deadline));
  }
  comm_.SetFirstStep(agreed);
  return agreed;
}

StatusOr<int64_t> CollectiveMode::Meet(const graph::Program& program, StepRollback* point,
                                       int64_t begin, Duration timeout, const Stop& stop) {
  const Time deadline = SteadyNow() + timeout;
  while (true) {
    communicators_.Clear();
    Status status = Connect(deadline - SteadyNow(), stop);
    if (status.ok()) status = communicators_.AgreeOnWorld();
    if (status.ok()) {
      const int64_t mine = point != nullptr             ? point->step()
                           : options_.returns.has_state ? begin
                                                        : -1;
      StatusOr<int64_t> step = SyncStateFromMostAdvanced(communicators_.Numbered(0), program,
                                                         *scope_, mine, point, begin);
      if (step.ok()) return step;
      status = step.status();
    }
    // FAILED_PRECONDITION may be temporary: during a change of the world, peers may have another
    // version of the world than this rank.
    const bool of_other_world =
        options_.returns.world_version > 0 && status.code() == StatusCode::kFailedPrecondition;
    const bool again = MayReturn(status) || of_other_world;
    if (!again || stop() || SteadyNow() >= deadline) return status;
    LOG(INFO) << "the ranks meet again after a failure: " << ToString(status);
    const Time next = SteadyNow() + kMeetPause;
    MutexLock lock(pause_mu_);
    while (SteadyNow() < next) pause_.WaitUntil(pause_mu_, next);
  }
}

// Either all ranks undo the changes of the failed step, or a rank that completed the step sends its
// state to the other ranks. In both cases all ranks continue with the same bits as without the
// failure.
StatusOr<int64_t> CollectiveMode::Recover(const Status& why, const graph::Program& program,
                                          StepRollback& point, const Stop& stop) {
  const bool broken = !communicators_.empty() && MayReturn(communicators_.Numbered(0).Health());
  if (!options_.returns.peers_return || !broken) return why;
  StatusOr<int64_t> step = Meet(program, &point, 0, Patience(), stop);
  if (!step.ok() && stop()) return why;
  if (step.ok()) ++recoveries_;
  return step;
}

StatusOr<TensorMap> CollectiveMode::State(const graph::Program& program, const exec::Scope& scope,
                                          Device& device) {
  const Time deadline = SteadyNow() + comm_.timeout();
  TD_RETURN_IF_ERROR(AsLostPeer(comm_.WaitForOverlapped(deadline)));
  TD_ASSIGN_OR_RETURN(TensorMap state, ScopeState(program, scope, device));
  TD_RETURN_IF_ERROR(
      AsLostPeer(program_.slots().Gather(communicators_.hosts(), scope, device, &state, deadline)));
  if (dgc()) TD_RETURN_IF_ERROR(AsLostPeer(dgc()->Sum(communicators_.hosts(), &state, deadline)));
  if (fragments()) {
    TD_RETURN_IF_ERROR(
        AsLostPeer(RankStates(fragments()->common())
                       .Gather(communicators_.hosts(), program, scope, device, &state, deadline)));
  }
  return state;
}

StatusOr<TensorMap> CollectiveMode::Params(const graph::Program& program, exec::Scope& scope,
                                           Device& host) {
  if (!params_are_spread()) return ParamsOf(program, scope, host);
  TensorMap params;
  const Time deadline = SteadyNow() + comm_.timeout();
  TD_RETURN_IF_ERROR(
      AsLostPeer(program_.params().Gather(communicators_.hosts(), scope, host, &params, deadline)));
  TD_RETURN_IF_ERROR(AsLostPeer(communicators_.hosts()
                                    .Barrier({.what = "all parameters are complete"})
                                    ->Wait(SteadyNow() + comm_.timeout())));
  return params;
}

StatusOr<int64_t> CollectiveMode::ValueOfRank0(int64_t value) {
  if (!params_are_spread()) return value;
  TD_RETURN_IF_ERROR(
      AsLostPeer(communicators_.hosts()
                     .Broadcast(&value, 1, DType::kI64, 0, {.what = "the decision of rank 0"})
                     ->Wait(SteadyNow() + comm_.timeout())));
  return value;
}

StatusOr<std::vector<int64_t>> CollectiveMode::ValuesOfRanks(int64_t value) {
  std::vector<int64_t> values(static_cast<size_t>(communicators_.hosts().size()));
  TD_RETURN_IF_ERROR(AsLostPeer(
      communicators_.hosts()
          .AllGather(&value, values.data(), 1, DType::kI64, {.what = "values of all ranks"})
          ->Wait(Time::max())));
  return values;
}

void CollectiveMode::AddCounts(ModeCounts* counts) const {
  comm_.AddCounts(counts);
  counts->communicators = static_cast<double>(communicators_.size());
  counts->recoveries = recoveries_;
  if (const int steps = AverageSteps(); steps > 0) counts->localsgd_k_steps = steps;
}

int CollectiveMode::AverageSteps() const {
  const Tensor* steps = scope_ == nullptr ? nullptr : scope_->Find(graph::kAverageStepsVar);
  if (steps == nullptr || steps->place().kind != PlaceKind::kCpu) return 0;
  return static_cast<int>(steps->span<float>()[0]);
}

std::string CollectiveMode::TakeMessage(int64_t step) {
  if (dgc()) return dgc()->TakeMessage();
  const int now = AverageSteps(), before = std::exchange(reported_steps_, now);
  if (now == before) return "";
  return absl::StrFormat("adaptive_localsgd: k_steps is %d after step %d", now, DisplayStep(step));
}

Status CollectiveMode::Finish() {
  // Without the barrier, a rank could disconnect while another rank still reduces.
  return communicators_.hosts()
      .Barrier({.what = "end of the job"})
      ->Wait(SteadyNow() + comm_.timeout());
}

std::optional<ShardOptions> ShardOptionsOf(const DistributedStrategy& strategy, int ranks) {
  if (!strategy.sharding() || ranks <= 1) return {};
  const ShardingConfigs& configs = strategy.sharding_configs();
  const int group = configs.sharding_group_size();
  return ShardOptions{
      .segment_bytes = static_cast<int64_t>(configs.fuse_broadcast_mb() * (1 << 20)),
      .group = configs.hybrid_dp() && group < ranks ? group : 0};
}

// Returns the rule of localsgd with fragments, a delay or an outer optimizer. nullopt: the strategy
// has none of them.
std::optional<graph::FragmentRule> FragmentRuleOf(const DistributedStrategy& strategy) {
  const LocalSgdConfigs& local = strategy.localsgd_configs();
  const bool nesterov = local.outer_optimizer() == "nesterov";
  const bool plain =
      !nesterov && local.fragments() <= 1 && local.delay() == 0 && local.merge_factor() == 0;
  if (!strategy.localsgd() || plain) return {};
  return graph::FragmentRule{.k_steps = local.k_steps(),
                             .begin_step = local.begin_step(),
                             .fragments = local.fragments(),
                             .delay = local.delay(),
                             .merge_factor = local.merge_factor(),
                             .nesterov = nesterov,
                             .learning_rate = local.outer_learning_rate(),
                             .momentum = local.outer_momentum()};
}

std::optional<graph::AverageRule> AverageRuleOf(const DistributedStrategy& strategy) {
  if (FragmentRuleOf(strategy)) return {};
  if (strategy.localsgd()) {
    const LocalSgdConfigs& local = strategy.localsgd_configs();
    return graph::AverageRule{local.k_steps(), local.begin_step()};
  }
  if (strategy.adaptive_localsgd()) {
    const AdaptiveLocalSgdConfigs& local = strategy.adaptive_localsgd_configs();
    return graph::AverageRule{local.init_k_steps(), local.begin_step(), /*adaptive=*/true};
  }
  return {};
}

std::optional<graph::DgcRule> DgcRuleOf(const DistributedStrategy& strategy) {
  if (!strategy.dgc()) return {};
  const DgcConfigs& dgc = strategy.dgc_configs();
  graph::DgcRule rule{dgc.rampup_begin_step(), dgc.rampup_step()};
  if (dgc.sparsity_size() > 0) rule.sparsity.assign(dgc.sparsity().begin(), dgc.sparsity().end());
  return rule;
}

}  // namespace

CollectiveOptions CollectiveOptionsOf(const JobConfig& config, const RankInfo& rank,
                                      CommonOptions common) {
  const DistributedStrategy& strategy = config.strategy();
  CollectiveOptions options;
  options.common = std::move(common);
  options.world = WorldOptionsOf(config, rank);
  options.returns = {.peers_return = rank.peers_return,
                     .restarted = rank.restarted,
                     .has_state = rank.has_state,
                     .members = rank.members,
                     .world_version = rank.world_version,
                     .world_file = rank.world_file};
  const auto place = ParsePlace(config.place());
  options.between_devices = place.ok() && place->kind != PlaceKind::kCpu;
  options.sync_batch_norm = strategy.sync_batch_norm() && rank.size > 1;
  options.update_by_owner =
      strategy.build_strategy().reduce_strategy() == BuildStrategy::Reduce && rank.size > 1;
  options.fuse_broadcast = strategy.build_strategy().fuse_broadcast_ops();
  options.shard = ShardOptionsOf(strategy, rank.size);
  options.average = AverageRuleOf(strategy);
  options.fragments = FragmentRuleOf(strategy);
  options.dgc = DgcRuleOf(strategy);
  options.tree_order = strategy.deterministic();
  options.comm_num = strategy.nccl_comm_num();
  options.one_comm_at_a_time = strategy.sync_nccl_allreduce();
  options.choose_by_model = strategy.allreduce_choice() == DistributedStrategy::ByModel;
  if (strategy.use_hierarchical_allreduce()) {
    options.group = strategy.hierarchical_allreduce_inter_nranks();
    if (strategy.hierarchical_allreduce_form() == DistributedStrategy::Leaders) {
      options.form = collective::HierarchyForm::kLeaders;
    }
  }
  return options;
}

TrainingMode MakeCollectiveMode(
    const CollectiveOptions& options,
    std::vector<std::unique_ptr<collective::Communicator>> communicators) {
  const auto mode = std::make_shared<CollectiveMode>(options, std::move(communicators));
  const bool spread = options.shard.has_value();  // whether parameters are divided among ranks
  EvaluationPart part = WholeOnRank0(options.common.rank);
  if (spread && part == EvaluationPart::kNone) part = EvaluationPart::kServesCommunication;
  return {.owner = mode,
          .programs = &mode->programs(),
          .membership = mode.get(),
          .state = mode.get(),
          .steps = mode.get(),
          .training = &mode->comm(),
          .evaluation = spread ? &mode->comm() : nullptr,
          .evaluation_part = part};
}

}  // namespace tandem::trainer
