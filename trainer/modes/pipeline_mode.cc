#include "trainer/modes/pipeline_mode.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <utility>

#include "collective/host/connect.h"
#include "common/base/check.h"
#include "common/base/require.h"
#include "common/base/step_number.h"
#include "kernels/graph/distribute/micro_batches.h"
#include "proto/job.pb.h"
#include "trainer/config/job_agreement.h"
#include "trainer/config/pipeline_config.h"
#include "trainer/modes/comms/comm_bucket.h"
#include "trainer/modes/comms/rank_waits.h"
#include "trainer/modes/comms/staged_comm.h"
#include "trainer/modes/gradient_groups.h"
#include "trainer/modes/mode_counts.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/modes/state/sharded_state.h"
#include "trainer/modes/table_checks.h"

namespace tandem::trainer {
namespace {

class PipelineMode final : public ProgramShaper,
                           public Membership,
                           public StateKeeper,
                           public StepHooks,
                           public exec::CommHandler {
 public:
  explicit PipelineMode(const PipelineOptions& options)
      : options_(options), rank_(RankOf(options.common.rank)) {}

  exec::CommHandler& comm() { return staged_; }
  const graph::PipelineRank& rank() const { return rank_; }

  Status Distribute(graph::Program& program, const std::vector<graph::ParamGrad>& grads) override;
  StatusOr<graph::Program> EvaluatedPart(const graph::Program& bound) override {
    return graph::ForwardSection(bound, rank_);
  }

  StatusOr<int64_t> Join(const graph::Program& program, exec::Scope& scope, const TensorMap& state,
                         int64_t step, const Stop& stop) override;
  StatusOr<bool> Stopping(bool mine) override { return AnyRank(*world_, mine, timeout()); }
  std::vector<double> WaitedSeconds() const override { return waits_.Seconds(); }
  Status Finish() override;
  void Abort(const Status& why) override {
    for (collective::Communicator* each : All()) each->Abort(ToString(why));
  }

  bool state_is_spread() const override { return true; }
  bool params_are_spread() const override { return true; }
  StatusOr<TensorMap> State(const graph::Program& program, const exec::Scope& scope,
                            Device& host) override;
  StatusOr<TensorMap> Params(const graph::Program& program, exec::Scope& scope,
                             Device& host) override;

  Status BeginStep(int64_t step, float learning_rate) override {
    TD_REQUIRE(scope_ != nullptr && world_ != nullptr);
    TD_RETURN_IF_ERROR(waits_.BeginStep(step, *world_, timeout()));
    return SetLearningRate(*scope_, learning_rate);
  }
  void AddCounts(ModeCounts* counts) const override;

  StatusOr<int> Register(const exec::CommNode& node) override;
  void Start(int index, int64_t step, exec::CommDone* done) override;
  Duration timeout() const override { return 2 * options_.common.step_timeout; }

 private:
  bool leader() const { return options_.common.leader(); }
  // Returns whether the job has heter workers. In such a job the first ranks are trainers (stage
  // 0), and the last ranks are heter workers (stage 1).
  bool kinds() const { return options_.heter_workers > 0; }
  int trainers() const { return options_.common.ranks - options_.heter_workers; }
  graph::PipelineRank RankOf(int rank) const;
  std::vector<int> Replicas() const;  // all ranks that run this rank's stage
  int OwnerOf(int section) const { return kinds() ? section * trainers() : section; }
  std::vector<collective::Communicator*> All() const;
  collective::Communicator& CommunicatorOf(const CommBucket& bucket) const;
  Status KeepSpread(const graph::Program& whole, const std::vector<graph::ParamGrad>& grads);
  Status ConnectAll(const Stop& stop);
  Status GiveMemory(CommBucket& bucket);
  StatusOr<TensorMap> Gather(const ShardedState& spread, TensorMap own, const exec::Scope& scope,
                             Device& host);

  const PipelineOptions options_;
  const graph::PipelineRank rank_;
  // Copies device tensors through host memory, because a heter worker may compute on a device.
  StagedComm staged_{*this};
  exec::Scope* scope_ = nullptr;
  ShardedState params_, state_;
  CpuDevice host_;         // allocates last_params_
  TensorMap last_params_;  // complete parameters; set on rank 0 by Finish
  bool finished_ = false;
  std::vector<std::unique_ptr<CommBucket>> buckets_;
  std::atomic<int64_t> bytes_{0};  // bytes sent from this rank's tensors
  RankWaits waits_;

  // The communicators are the last members, because their threads use the other members. A
  // communicator that would have no peers is null.
  std::unique_ptr<collective::Communicator> world_, forward_, backward_, replicas_;
};

graph::PipelineRank PipelineMode::RankOf(int rank) const {
  TD_REQUIRE(rank >= 0 && rank < options_.common.ranks);
  graph::PipelineRank found{.sections = options_.sections, .micro_batches = options_.micro_batches};
  if (!kinds()) {
    found.section = rank % options_.sections;
    found.first_rank = rank - found.section;
    return found;
  }
  const int each = trainers() / options_.heter_workers;
  found.section = rank < trainers() ? 0 : 1;
  found.first_rank = found.section == 0 ? rank : (rank - trainers()) * each;
  found.apart = trainers() + found.first_rank / each - found.first_rank;
  found.rank_each = found.section == 1;
  found.micro_batches = found.section == 0 ? 1 : each;
  return found;
}

std::vector<int> PipelineMode::Replicas() const {
  std::vector<int> same;
  for (int r = 0; r < options_.common.ranks; ++r) {
    if (RankOf(r).section == rank_.section) same.push_back(r);
  }
  return same;
}

std::vector<collective::Communicator*> PipelineMode::All() const {
  std::vector<collective::Communicator*> all;
  for (const auto* each : {&world_, &forward_, &backward_, &replicas_}) {
    if (*each != nullptr) all.push_back(each->get());
  }
  return all;
}

collective::Communicator& PipelineMode::CommunicatorOf(const CommBucket& bucket) const {
  if (bucket.op != collective::CollectiveOp::kSendRecv) return *replicas_;
  const bool forward =
      bucket.to > options_.common.rank || (bucket.to < 0 && bucket.from < options_.common.rank);
  return forward ? *forward_ : *backward_;
}

Status PipelineMode::Distribute(graph::Program& program,
                                const std::vector<graph::ParamGrad>& grads) {
  TD_ASSIGN_OR_RETURN(const graph::UpdateScope reach, graph::ReachOf(options_.common.optimizer));
  if (reach == graph::UpdateScope::kAll) {
    return Unimplemented(
        "clip_global_norm is not implemented with pipeline or heter workers, because no rank has "
        "all gradients [TD1109]; hint: use clip_norm");
  }
  TD_RETURN_IF_ERROR(KeepSpread(program, grads));
  TD_ASSIGN_OR_RETURN(graph::SectionProgram made, graph::UnrollSection(program, grads, rank_));
  program = std::move(made.program);
  if (Replicas().size() > 1) {
    TD_RETURN_IF_ERROR(
        graph::InsertAllReduce(program, GroupedGradients(program, made.grads, options_.common)));
  }
  TD_RETURN_IF_ERROR(graph::AppendOptimizer(program, options_.common.optimizer, made.grads));
  for (ops::Op& reset : made.resets) TD_RETURN_IF_ERROR(graph::AppendOp(program, std::move(reset)));
  return OkStatus();
}

// Records which rank owns each variable of the whole program. The owners are the ranks of the first
// replica.
Status PipelineMode::KeepSpread(const graph::Program& whole,
                                const std::vector<graph::ParamGrad>& grads) {
  TD_ASSIGN_OR_RETURN(const graph::Sections divided, graph::CutSections(whole));
  std::set<std::string> tables;  // tables whose rows are on pservers (heter_mode.cc)
  for (const ops::Op& op : whole.ops) {
    if (op.type == "lookup_table_sparse_grad") tables.insert(op.inputs[1].front());
  }
  std::vector<int> owners;
  for (const graph::ParamGrad& pair : grads)
    owners.push_back(OwnerOf(divided.homes.at(pair.param)));
  TD_ASSIGN_OR_RETURN(state_, ShardedState::Make(whole, options_.common.optimizer, grads, owners,
                                                 options_.sections));
  std::map<std::string, int> params;
  for (const graph::Var& var : whole.vars()) {
    const auto home = divided.homes.find(var.name);
    if (home == divided.homes.end() || !var.saved || tables.contains(var.name)) continue;
    if (var.kind == graph::VarKind::kParam) {
      params.emplace(var.name, OwnerOf(home->second));
    } else {
      state_.Add(var.name, var.desc, OwnerOf(home->second));
    }
  }
  params_ = ShardedState::OfParams(whole, params, options_.sections);
  if (kinds()) {
    for (ShardedState* spread : {&state_, &params_}) spread->SetRuns(trainers());
  }
  return OkStatus();
}

Status PipelineMode::ConnectAll(const Stop& stop) {
  const collective::WorldConfig world = WorldOf(options_.common, options_.world, stop);
  collective::HostCommunicatorConfig config;
  config.operation_timeout = options_.common.step_timeout;
  const auto connect =
      [&](std::vector<int> members) -> StatusOr<std::unique_ptr<collective::Communicator>> {
    // Without the barrier, a rank could join the next communicator before rank 0 has closed the
    // rendezvous of the previous one.
    if (world_ != nullptr) {
      TD_RETURN_IF_ERROR(world_->Barrier({.what = "next communicator"})->Wait(Time::max()));
    }
    return collective::Connect(
        world, config, {.carrier = options_.world.transport, .members = std::move(members)});
  };
  TD_ASSIGN_OR_RETURN(world_, connect({}));
  if (!options_.common.agreement.empty()) {
    TD_RETURN_IF_ERROR(AgreeAmongRanks(*world_, options_.common.agreement,
                                       SteadyNow() + options_.common.start_timeout));
  }
  if (options_.sections > 1) {
    TD_ASSIGN_OR_RETURN(forward_, connect({}));
    TD_ASSIGN_OR_RETURN(backward_, connect({}));
  }
  if (options_.common.ranks > options_.sections) {
    TD_ASSIGN_OR_RETURN(replicas_, connect(Replicas()));
  }
  for (const auto& bucket : buckets_) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  LOG_IF(INFO, leader() && kinds()) << absl::StrFormat(
      "heter workers: %d, each for %d trainers; they run the operators under device guard \"%s\"; "
      "over %s",
      options_.heter_workers, trainers() / std::max(1, options_.heter_workers),
      options_.device_guard, world_->name());
  LOG_IF(INFO, leader() && !kinds()) << absl::StrFormat(
      "pipeline: %d sections, %d replicas, %d micro batches; over %s; a rank waits (sections - 1) "
      "/ (micro batches + sections - 1) = %.2f of a step if all sections take equal time",
      options_.sections, options_.common.ranks / options_.sections, options_.micro_batches,
      world_->name(), graph::BubbleShare(options_.sections, options_.micro_batches));
  return OkStatus();
}

Status PipelineMode::GiveMemory(CommBucket& bucket) {
  if (!bucket.is_flat) return OkStatus();
  TD_ASSIGN_OR_RETURN(bucket.flat,
                      CommunicatorOf(bucket).Allocate(bucket.count * SizeOf(bucket.dtype)));
  return OkStatus();
}

// All ranks compute the same initial values. If the job resumes, rank 0 sends the values of the
// checkpoint to the other ranks.
StatusOr<int64_t> PipelineMode::Join(const graph::Program& program, exec::Scope& scope,
                                     const TensorMap& state, int64_t step, const Stop& stop) {
  TD_RETURN_IF_ERROR(RefuseTableRules(program));
  if (scope.device().place().kind != PlaceKind::kCpu && !kinds()) {
    return Unimplemented(
        "pipeline between CUDA places is not implemented [TD1109]; hint: use --place=cpu");
  }
  scope_ = &scope;
  TD_RETURN_IF_ERROR(ConnectAll(stop));
  const Time deadline = SteadyNow() + options_.common.start_timeout;
  int64_t agreed = step;
  TD_RETURN_IF_ERROR(
      world_->Broadcast(&agreed, 1, DType::kI64, 0, {.what = "step", .deadline = deadline})
          ->Wait(Time::max()));
  TD_RETURN_IF_ERROR(params_.Scatter(*world_, state, scope, deadline));
  TD_RETURN_IF_ERROR(state_.Scatter(*world_, state, scope, deadline));
  return agreed;
}

StatusOr<TensorMap> PipelineMode::Gather(const ShardedState& spread, TensorMap own,
                                         const exec::Scope& scope, Device& host) {
  TD_RETURN_IF_ERROR(AsLostPeer(
      spread.Gather(*world_, scope, host, leader() ? &own : nullptr, SteadyNow() + timeout())));
  return own;
}

StatusOr<TensorMap> PipelineMode::State(const graph::Program& program, const exec::Scope& scope,
                                        Device& host) {
  TD_ASSIGN_OR_RETURN(TensorMap own, ScopeState(program, scope, host));
  return Gather(state_, std::move(own), scope, host);
}

StatusOr<TensorMap> PipelineMode::Params(const graph::Program& program, exec::Scope& scope,
                                         Device& host) {
  if (finished_ && leader()) return last_params_;
  TD_ASSIGN_OR_RETURN(TensorMap own, ParamsOf(program, scope, host));
  return finished_ ? std::move(own) : Gather(params_, std::move(own), scope, host);
}

Status PipelineMode::Finish() {
  TD_ASSIGN_OR_RETURN(last_params_, Gather(params_, {}, *scope_, host_));
  finished_ = true;
  // Without the barrier, a rank could disconnect while another rank still reduces.
  return world_->Barrier({.what = "end of the job"})->Wait(SteadyNow() + timeout());
}

StatusOr<int> PipelineMode::Register(const exec::CommNode& node) {
  TD_ASSIGN_OR_RETURN(auto bucket,
                      CommBucket::Make(node, options_.common.rank, options_.common.ranks,
                                       options_.common.half_communication));
  // The two peers must use the same name for the bucket. A micro batch of a heter worker is the
  // whole batch of a trainer, so the heter worker removes the micro batch from the name.
  if (rank_.rank_each) bucket->name = graph::WholeName(bucket->name);
  bucket->index = buckets_.size();
  if (world_ != nullptr) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  buckets_.push_back(std::move(bucket));
  return static_cast<int>(buckets_.size()) - 1;
}

void PipelineMode::Start(int index, int64_t step, exec::CommDone* done) {
  TD_REQUIRE(index >= 0 && static_cast<size_t>(index) < buckets_.size());
  CommBucket* bucket = buckets_[static_cast<size_t>(index)].get();
  const auto end = [done, step](const Status& status) {
    done->Complete(AsLostPeer(Annotate(status, absl::StrFormat("step %d", DisplayStep(step)))));
  };
  const StatusOr<size_t> given = bucket->Gather();
  if (!given.ok()) return end(given.status());
  waits_.Began();
  bytes_ += static_cast<int64_t>(*given * SizeOf(bucket->dtype));
  CommunicatorOf(*bucket)
      .Start(bucket->Call(*given))
      ->OnDone([this, bucket, count = *given, end](const Status& status) {
        waits_.Ended();
        end(status.ok() ? bucket->Scatter(count) : status);
      });
}

void PipelineMode::AddCounts(ModeCounts* counts) const {
  counts->comm_bytes = static_cast<double>(bytes_.load());
  counts->communicators = static_cast<double>(All().size());
  if (kinds()) {
    counts->heter_workers = options_.heter_workers;
    return;
  }
  counts->pipeline_sections = options_.sections;
  counts->pipeline_micro_batches = options_.micro_batches;
  counts->pipeline_bubble = graph::BubbleShare(options_.sections, options_.micro_batches);
}

}  // namespace

PipelineOptions PipelineOptionsOf(const JobConfig& config, const RankInfo& rank,
                                  CommonOptions common) {
  const DistributedStrategy& strategy = config.strategy();
  PipelineOptions options;
  options.common = std::move(common);
  options.world = WorldOptionsOf(config, rank);
  if (strategy.pipeline()) {
    options.sections = std::max(1, config.model().sections());
    options.micro_batches = strategy.pipeline_configs().micro_batch();
  }
  if (rank.heter_workers > 0) options.sections = 2;
  options.heter_workers = rank.heter_workers;
  options.device_guard = strategy.a_sync_configs().heter_worker_device_guard();
  return options;
}

StatusOr<TrainingMode> MakePipelineMode(const PipelineOptions& options) {
  if (options.heter_workers == 0) {
    TD_RETURN_IF_ERROR(CheckSections(options.sections, options.common.ranks));
  }
  const auto mode = std::make_shared<PipelineMode>(options);
  const bool first_replica = mode->rank().first_rank == 0;
  return TrainingMode{
      .owner = mode,
      .programs = mode.get(),
      .membership = mode.get(),
      .state = mode.get(),
      .steps = mode.get(),
      .training = &mode->comm(),
      .evaluation = &mode->comm(),
      .evaluation_part = first_replica ? EvaluationPart::kSection : EvaluationPart::kNone,
      .sections = options.sections,
      .micro_batches = mode->rank().micro_batches};
}

}  // namespace tandem::trainer
