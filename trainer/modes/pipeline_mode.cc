// mode=collective with pipeline: with S stages, rank r runs stage r % S of replica r / S. The
// rank's program contains its work (kernels/graph/passes/micro_batches.h); this file does the
// communication.
// Values are sent to later stages over one communicator and gradients to earlier stages over
// another, so that neither waits for the other. The ranks of a stage reduce their gradients over a
// third.
#include <algorithm>
#include <atomic>
#include <functional>
#include <set>
#include <utility>

#include "collective/host/connect.h"
#include "common/base/step_number.h"
#include "kernels/graph/passes/micro_batches.h"
#include "trainer/job/job_agreement.h"
#include "trainer/job/pipeline_config.h"
#include "trainer/modes/comm_bucket.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/rank_waits.h"
#include "trainer/modes/sharded_state.h"
#include "trainer/modes/staged_comm.h"

namespace tandem::trainer {
namespace {

class PipelineMode final : public ModeDriver, public CommHandler {
 public:
  explicit PipelineMode(const ModeOptions& options)
      : options_(options), rank_(RankOf(options.rank)) {}

  Status Distribute(Program& program, const std::vector<ParamGrad>& grads) override;
  CommHandler* comm() override { return &staged_; }
  CommHandler* evaluation_comm() override { return &staged_; }
  int sections() const override { return options_.sections; }
  int micro_batches() const override { return rank_.micro_batches; }
  bool evaluates() const override { return rank_.first_rank == 0; }
  bool serves() const override { return false; }
  StatusOr<Program> Evaluated(const Program& forward) override {
    return ForwardSection(forward, rank_);
  }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step, const std::function<bool()>& stop) override;
  Status BeginStep(int64_t step, float learning_rate) override {
    TD_RETURN_IF_ERROR(waits_.BeginStep(step, *world_, timeout()));
    return SetLearningRate(*scope_, learning_rate);
  }
  std::vector<double> WaitedSeconds() const override { return waits_.Seconds(); }
  bool state_is_spread() const override { return true; }
  bool params_are_spread() const override { return true; }
  StatusOr<bool> Stopping(bool mine) override { return AnyRank(*world_, mine, timeout()); }
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& host) override;
  StatusOr<TensorMap> Params(const Program& program, Scope& scope, Device& host) override;
  Status Finish() override;
  void AddCounts(std::map<std::string, double>* counts) const override;
  void Abort(const Status& why) override {
    for (collective::Communicator* each : All()) each->Abort(ToString(why));
  }

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override;
  Duration timeout() const override { return 2 * options_.step_timeout; }

 private:
  bool leader() const { return options_.rank == 0; }
  // Stages are kinds of ranks: first trainers, then heter workers.
  bool kinds() const { return options_.heter_workers > 0; }
  int trainers() const { return options_.ranks - options_.heter_workers; }
  PipelineRank RankOf(int rank) const;
  std::vector<int> Replicas() const;  // the ranks of this rank's stage
  int OwnerOf(int section) const { return kinds() ? section * trainers() : section; }
  std::vector<collective::Communicator*> All() const;
  collective::Communicator& CommunicatorOf(const CommBucket& bucket) const;
  Status KeepSpread(const Program& whole, const std::vector<ParamGrad>& grads);
  Status ConnectAll(const std::function<bool()>& stop);
  Status GiveMemory(CommBucket& bucket);
  StatusOr<TensorMap> Gather(const ShardedState& spread, TensorMap own, const Scope& scope,
                             Device& host);

  const ModeOptions options_;
  const PipelineRank rank_;
  StagedComm staged_{*this};  // used because a heter worker may be on a device
  Scope* scope_ = nullptr;
  ShardedState params_, state_;
  TensorMap last_params_;  // on rank 0, after Finish
  bool finished_ = false;
  std::vector<std::unique_ptr<CommBucket>> buckets_;
  std::atomic<int64_t> bytes_{0};  // of this rank's tensors
  RankWaits waits_;

  // Last members: their threads use the other members. A communicator without peers is null.
  std::unique_ptr<collective::Communicator> world_, forward_, backward_, replicas_;
};

PipelineRank PipelineMode::RankOf(int rank) const {
  PipelineRank found{.sections = options_.sections, .micro_batches = options_.micro_batches};
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
  for (int r = 0; r < options_.ranks; ++r) {
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
  const bool forward = bucket.to > options_.rank || (bucket.to < 0 && bucket.from < options_.rank);
  return forward ? *forward_ : *backward_;
}

Status PipelineMode::Distribute(Program& program, const std::vector<ParamGrad>& grads) {
  TD_ASSIGN_OR_RETURN(const UpdateScope reach, ReachOf(options_.optimizer));
  if (reach == UpdateScope::kAll) {
    return Unimplemented(
        "clip_global_norm is not implemented with pipeline or heter workers, because no rank has "
        "all gradients [TD1109]; hint: clip_norm");
  }
  TD_RETURN_IF_ERROR(KeepSpread(program, grads));
  TD_ASSIGN_OR_RETURN(SectionProgram made, UnrollSection(program, grads, rank_));
  program = std::move(made.program);
  if (Replicas().size() > 1) {
    TD_RETURN_IF_ERROR(InsertAllReduce(program, GroupedGradients(program, made.grads, options_)));
  }
  TD_RETURN_IF_ERROR(AppendOptimizer(program, options_.optimizer, made.grads));
  for (Op& reset : made.resets) TD_RETURN_IF_ERROR(AppendOp(program, std::move(reset)));
  return OkStatus();
}

// Records the owners of the whole program's state: they are the ranks of the first replica.
Status PipelineMode::KeepSpread(const Program& whole, const std::vector<ParamGrad>& grads) {
  TD_ASSIGN_OR_RETURN(const Sections cut, CutSections(whole));
  std::set<std::string> tables;  // with rows on pservers (heter_mode.cc)
  for (const Op& op : whole.ops) {
    if (op.type == "lookup_table_sparse_grad") tables.insert(op.inputs[1].front());
  }
  std::vector<int> owners;
  for (const ParamGrad& pair : grads) owners.push_back(OwnerOf(cut.homes.at(pair.param)));
  TD_ASSIGN_OR_RETURN(
      state_, ShardedState::Make(whole, options_.optimizer, grads, owners, options_.sections));
  std::map<std::string, int> params;
  for (const Var& var : whole.vars()) {
    const auto home = cut.homes.find(var.name);
    if (home == cut.homes.end() || !var.saved || tables.contains(var.name)) continue;
    if (var.kind == VarKind::kParam) {
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

Status PipelineMode::ConnectAll(const std::function<bool()>& stop) {
  const collective::WorldConfig world = WorldOf(options_, stop);
  collective::HostCommunicatorConfig config;
  config.operation_timeout = options_.step_timeout;
  const auto connect =
      [&](std::vector<int> members) -> StatusOr<std::unique_ptr<collective::Communicator>> {
    // No rank may join the next communicator before rank 0 has closed the rendezvous of the last
    // one.
    if (world_ != nullptr) {
      TD_RETURN_IF_ERROR(world_->Barrier({.what = "next communicator"})->Wait(Time::max()));
    }
    return collective::Connect(world, config,
                               {.carrier = options_.carrier, .members = std::move(members)});
  };
  TD_ASSIGN_OR_RETURN(world_, connect({}));
  if (!options_.agreement.empty()) {
    TD_RETURN_IF_ERROR(
        AgreeAmongRanks(*world_, options_.agreement, SteadyNow() + options_.start_timeout));
  }
  if (options_.sections > 1) {
    TD_ASSIGN_OR_RETURN(forward_, connect({}));
    TD_ASSIGN_OR_RETURN(backward_, connect({}));
  }
  if (options_.ranks > options_.sections) {
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
      options_.sections, options_.ranks / options_.sections, options_.micro_batches, world_->name(),
      BubbleShare(options_.sections, options_.micro_batches));
  return OkStatus();
}

Status PipelineMode::GiveMemory(CommBucket& bucket) {
  if (!bucket.is_flat) return OkStatus();
  TD_ASSIGN_OR_RETURN(bucket.flat,
                      CommunicatorOf(bucket).Allocate(bucket.count * SizeOf(bucket.dtype)));
  return OkStatus();
}

// All ranks have the same initial values. Rank 0 sends the values of a checkpoint to the others.
StatusOr<int64_t> PipelineMode::Start(const Program& program, Scope& scope, const TensorMap& state,
                                      int64_t step, const std::function<bool()>& stop) {
  TD_RETURN_IF_ERROR(RefuseTableRules(program));
  if (scope.device().place().kind != PlaceKind::kCpu && !kinds()) {
    return Unimplemented(
        "pipeline between CUDA places is not implemented [TD1109]; hint: --place=cpu");
  }
  scope_ = &scope;
  TD_RETURN_IF_ERROR(ConnectAll(stop));
  const Time deadline = SteadyNow() + options_.start_timeout;
  int64_t agreed = step;
  TD_RETURN_IF_ERROR(
      world_->Broadcast(&agreed, 1, DType::kI64, 0, {.what = "step", .deadline = deadline})
          ->Wait(Time::max()));
  TD_RETURN_IF_ERROR(params_.Scatter(*world_, state, scope, deadline));
  TD_RETURN_IF_ERROR(state_.Scatter(*world_, state, scope, deadline));
  return agreed;
}

StatusOr<TensorMap> PipelineMode::Gather(const ShardedState& spread, TensorMap own,
                                         const Scope& scope, Device& host) {
  TD_RETURN_IF_ERROR(AsLostPeer(
      spread.Gather(*world_, scope, host, leader() ? &own : nullptr, SteadyNow() + timeout())));
  return own;
}

StatusOr<TensorMap> PipelineMode::State(const Program& program, const Scope& scope, Device& host) {
  TD_ASSIGN_OR_RETURN(TensorMap own, ScopeState(program, scope, host));
  return Gather(state_, std::move(own), scope, host);
}

StatusOr<TensorMap> PipelineMode::Params(const Program& program, Scope& scope, Device& host) {
  if (finished_ && leader()) return last_params_;
  TD_ASSIGN_OR_RETURN(TensorMap own, ParamsOf(program, scope, host));
  return finished_ ? std::move(own) : Gather(params_, std::move(own), scope, host);
}

Status PipelineMode::Finish() {
  CpuDevice host;
  TD_ASSIGN_OR_RETURN(last_params_, Gather(params_, {}, *scope_, host));
  finished_ = true;
  // No rank may disconnect while another still reduces.
  return world_->Barrier({.what = "end of the job"})->Wait(SteadyNow() + timeout());
}

StatusOr<int> PipelineMode::Register(const CommNode& node) {
  TD_ASSIGN_OR_RETURN(auto bucket, CommBucket::Make(node, options_.rank, options_.ranks,
                                                    options_.half_communication));
  // A micro batch of a heter worker is the whole batch of the trainer at the other end.
  if (rank_.rank_each) bucket->name = WholeName(bucket->name);
  bucket->index = buckets_.size();
  if (world_ != nullptr) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  buckets_.push_back(std::move(bucket));
  return static_cast<int>(buckets_.size()) - 1;
}

void PipelineMode::Start(int index, int64_t step, CommDone* done) {
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

void PipelineMode::AddCounts(std::map<std::string, double>* counts) const {
  (*counts)["comm_bytes"] = static_cast<double>(bytes_.load());
  (*counts)["communicators"] = static_cast<double>(All().size());
  if (kinds()) return;
  (*counts)["pipeline.sections"] = options_.sections;
  (*counts)["pipeline.micro_batches"] = options_.micro_batches;
  (*counts)["pipeline.bubble"] = BubbleShare(options_.sections, options_.micro_batches);
}

}  // namespace

StatusOr<std::unique_ptr<ModeDriver>> MakePipelineMode(const ModeOptions& options) {
  if (options.heter_workers == 0) {
    TD_RETURN_IF_ERROR(CheckSections(options.sections, options.ranks));
  }
  return std::unique_ptr<ModeDriver>(std::make_unique<PipelineMode>(options));
}

}  // namespace tandem::trainer
