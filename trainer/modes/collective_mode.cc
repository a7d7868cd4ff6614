// mode=collective: trainers reduce gradients among themselves, and each runs the optimizer on the
// sum.
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <utility>

#include "absl/strings/str_join.h"
#include "collective/host/connect.h"
#include "collective/nccl/nccl_communicator.h"
#include "common/base/launcher_words.h"
#include "common/base/step_number.h"
#include "trainer/job/job_agreement.h"
#include "trainer/modes/allreduce_choice.h"
#include "trainer/modes/collective_program.h"
#include "trainer/modes/comm_bucket.h"
#include "trainer/modes/common_state.h"
#include "trainer/modes/flat_pool.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/rank_waits.h"

namespace tandem::trainer {
namespace {

// Pause between two attempts to connect. An immediate failure (a port that is still in use) may
// repeat immediately.
constexpr Duration kMeetPause = std::chrono::milliseconds(50);

// Returns whether the peer that caused `failure` may return. A rank counts as taken
// (ALREADY_EXISTS) until the end of its last connection is seen.
bool MayReturn(const Status& failure) {
  return failure.code() == StatusCode::kUnavailable || failure.code() == StatusCode::kAborted ||
         failure.code() == StatusCode::kDeadlineExceeded ||
         failure.code() == StatusCode::kAlreadyExists;
}

// One communication that is in flight or waits for the previous one.
struct Flight {
  CommBucket* bucket;
  int64_t step;
  CommDone* done;
};

class CollectiveMode final : public ModeDriver, public CommHandler {
 public:
  CollectiveMode(const ModeOptions& options,
                 std::vector<std::unique_ptr<collective::Communicator>> communicators)
      : options_(options), communicators_(std::move(communicators)) {}
  ~CollectiveMode() override { EndFlights(); }

  Status Distribute(Program& program, const std::vector<ParamGrad>& given) override {
    return program_.Distribute(program, given);
  }
  Status DistributeForward(Program& program) override {
    return program_.DistributeForward(program);
  }
  Status Shard(Program& program) override { return program_.Shard(program); }
  CommHandler* comm() override { return this; }
  CommHandler* evaluation_comm() override { return params_are_spread() ? this : nullptr; }
  StatusOr<int64_t> Start(const Program& program, Scope& scope, const TensorMap& state,
                          int64_t step, const std::function<bool()>& stop) override;
  StatusOr<int64_t> Recover(const Status& why, const Program& program, StepRollback& point,
                            const std::function<bool()>& stop) override;
  Status BeginStep(int64_t step, float learning_rate) override {
    if (dgc()) TD_RETURN_IF_ERROR(dgc()->BeginStep(*scope_, step));
    TD_RETURN_IF_ERROR(waits_.BeginStep(step, hosts(), timeout()));
    return SetLearningRate(*scope_, learning_rate);
  }
  std::vector<double> WaitedSeconds() const override { return waits_.Seconds(); }
  bool state_is_spread() const override { return program_.spread(); }
  bool params_are_spread() const override { return !program_.params().empty(); }
  StatusOr<bool> Stopping(bool mine) override;
  StatusOr<TensorMap> State(const Program& program, const Scope& scope, Device& device) override;
  StatusOr<TensorMap> Params(const Program& program, Scope& scope, Device& host) override;
  StatusOr<int64_t> Tell(int64_t value) override;
  Status Finish() override;
  void AddCounts(std::map<std::string, double>* counts) const override;
  std::string News(int64_t step) override;
  void Abort(const Status& why) override {
    for (const auto& communicator : communicators_) communicator->Abort(ToString(why));
    if (control_ != nullptr) control_->Abort(ToString(why));
  }
  void ReleaseDeviceResources() override {
    if (control_ == nullptr) return;
    EndFlights();
    communicators_.clear();
  }

  StatusOr<int> Register(const CommNode& node) override;
  void Start(int index, int64_t step, CommDone* done) override TD_EXCLUDES(mu_);
  Duration timeout() const override { return 2 * options_.step_timeout; }

 private:
  // How long ranks that reconnect wait for each other. A peer may be evaluating, or may hang until
  // it is replaced.
  Duration Patience() const { return 2 * (options_.start_timeout + options_.step_timeout); }
  // The process of a rank as the launcher names it.
  std::string Process(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return absl::StrFormat("trainer %d", options_.members.empty() ? rank : options_.members[at]);
  }
  Status ConnectAll(Duration timeout, const std::function<bool()>& stop);
  // Connects and synchronises the state, repeatedly until both succeed.
  StatusOr<int64_t> Meet(const Program& program, StepRollback* point, int64_t begin,
                         Duration timeout, const std::function<bool()>& stop);
  Status AgreeOnJob() {
    if (options_.agreement.empty()) return OkStatus();
    return AgreeAmongRanks(hosts(), options_.agreement, SteadyNow() + options_.start_timeout);
  }
  Status AgreeOnWorld();
  Status ConnectHosts(const collective::WorldConfig& world);
  Status ConnectDevices(const collective::WorldConfig& world);
  void EndFlights() TD_EXCLUDES(mu_);
  collective::HierarchyForm form() const {
    return options_.group_by_leaders ? collective::HierarchyForm::kLeaders
                                     : collective::HierarchyForm::kShards;
  }
  // The communicator for this rank's host memory.
  collective::Communicator& hosts() const { return control_ ? *control_ : *communicators_[0]; }
  collective::Communicator& CommunicatorOf(const CommBucket& bucket) const {
    return *communicators_[bucket.borrows ? 0 : bucket.index % communicators_.size()];
  }
  Status GiveMemory(CommBucket& bucket);
  std::vector<ReducedBucket> Reduced() const;
  std::optional<DgcState>& dgc() { return program_.dgc(); }
  // `then` is called after the flight itself has completed.
  void Launch(const Flight& flight, std::function<void()> then);
  void LaunchNext() TD_EXCLUDES(mu_);
  int AverageSteps() const;  // k of adaptive_localsgd; 0: not used

  const ModeOptions options_;
  Scope* scope_ = nullptr;
  int told_steps_ = 0;  // the last reported AverageSteps()
  int64_t first_step_ = -1;
  CollectiveProgram program_{options_};
  std::vector<std::unique_ptr<CommBucket>> buckets_;
  FlatPool flats_;  // for buckets that borrow their buffer

  int recoveries_ = 0;
  std::atomic<int64_t> launched_{0}, launched_max_{0};  // flights in progress, and the maximum
  std::atomic<int64_t> bytes_{0};                       // of this rank's buffers
  RankWaits waits_;

  // Used with one_comm_at_a_time and several communicators.
  Mutex mu_;
  CondVar idle_;
  std::deque<Flight> waiting_ TD_GUARDED_BY(mu_);
  bool busy_ TD_GUARDED_BY(mu_) = false;

  // Used with devices. Connects their hosts and outlives the device communicators.
  collective::NcclLibrary nccl_{};
  std::unique_ptr<collective::Communicator> control_;
  std::vector<std::unique_ptr<collective::Communicator>>
      communicators_;  // last: their threads use the other members
};

// A completed flight may launch the next one on any communicator. So all communicators must exist
// until none does.
void CollectiveMode::EndFlights() {
  MutexLock lock(mu_);
  if (busy_) Abort(Cancelled("the training mode was closed with pending communication"));
  while (busy_) idle_.WaitUntil(mu_, Time::max());
}

Status CollectiveMode::ConnectAll(Duration timeout, const std::function<bool()>& stop) {
  collective::WorldConfig world = WorldOf(options_, stop);
  world.timeout = timeout;
  if (options_.peers_return) world.connect_timeout = std::chrono::seconds(10);
  if (!options_.launcher.empty()) {
    world.missing = [this](const std::vector<int>& ranks, Duration waited) {
      const Duration start_limit = std::max(options_.start_timeout, options_.step_timeout);
      for (const int rank : ranks) {
        TellWait(options_.launcher, {Process(options_.rank), Process(rank), waited,
                                     // Within this time the peer may be working on a step.
                                     options_.step_timeout, start_limit});
      }
    };
  }
  if (options_.group > 1 && options_.rank == 0 && !options_.tree_order) {
    LOG(INFO) << "hierarchical allreduce: "
              << collective::DescribeGroups(options_.ranks, options_.group)
              << (options_.ranks > options_.group ? "" : " (only one group: the flat ring)");
  }
  const bool devices = scope_->device().place().kind != PlaceKind::kCpu;
  TD_RETURN_IF_ERROR(devices ? ConnectDevices(world) : ConnectHosts(world));
  if (options_.rank == 0) LOG(INFO) << "collectives use " << communicators_[0]->name();
  for (const auto& bucket : buckets_) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  if (!options_.launcher.empty()) TellHere(options_.launcher, Process(options_.rank));
  return OkStatus();
}

Status CollectiveMode::ConnectHosts(const collective::WorldConfig& world) {
  collective::HostCommunicatorConfig config;
  config.operation_timeout = options_.step_timeout;
  config.rule.tree_order = options_.tree_order;
  config.rule.group = options_.group;
  config.rule.form = form();
  if (options_.choose_by_model && options_.ranks > 1) {
    TD_ASSIGN_OR_RETURN(config.rule.choices,
                        ChooseByModel(world, config, options_.carrier, Reduced()));
  }
  for (int i = 0; i < options_.comm_num; ++i) {
    // No rank may join the next communicator before rank 0 has closed the rendezvous of the last
    // one.
    if (i > 0) {
      TD_RETURN_IF_ERROR(
          communicators_.back()->Barrier({.what = "next communicator"})->Wait(Time::max()));
    }
    TD_ASSIGN_OR_RETURN(auto communicator, collective::Connect(world, config, {options_.carrier}));
    communicators_.push_back(std::move(communicator));
    if (i == 0) TD_RETURN_IF_ERROR(AgreeOnJob());
  }
  return OkStatus();
}

Status CollectiveMode::ConnectDevices(const collective::WorldConfig& world) {
  TD_ASSIGN_OR_RETURN(nccl_, collective::OpenNccl());
  collective::HostCommunicatorConfig config;
  config.operation_timeout = options_.step_timeout;
  TD_ASSIGN_OR_RETURN(control_, collective::Connect(world, config, {options_.carrier}));
  TD_RETURN_IF_ERROR(AgreeOnJob());
  // One communicator orders its operations. Several that take turns would start each other's
  // operations on their own threads while the compute stream is being recorded.
  const int count = options_.one_comm_at_a_time ? 1 : options_.comm_num;
  for (int i = 0; i < count; ++i) {
    const collective::NcclOptions one = {.number = i,
                                         .start_timeout = options_.start_timeout,
                                         .operation_timeout = options_.step_timeout,
                                         .group = options_.group,
                                         .form = form()};
    TD_ASSIGN_OR_RETURN(auto communicator,
                        collective::ConnectNccl(nccl_, scope_->device(), *control_, one));
    communicators_.push_back(std::move(communicator));
  }
  if (options_.rank == 0) {
    LOG(INFO) << "NCCL " << collective::NcclVersionText(nccl_.version) << ", " << count
              << " communicators of " << options_.ranks << " devices";
  }
  return OkStatus();
}

Status CollectiveMode::GiveMemory(CommBucket& bucket) {
  if (!bucket.is_flat) return OkStatus();
  const size_t bytes = bucket.count * SizeOf(bucket.dtype);
  if (bucket.borrows) {
    flats_.Reserve(bytes);
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(bucket.flat, CommunicatorOf(bucket).Allocate(bytes));
  return OkStatus();
}

std::vector<ReducedBucket> CollectiveMode::Reduced() const {
  std::vector<ReducedBucket> reduced;
  for (const auto& bucket : buckets_) {
    if (bucket->op != collective::CollectiveOp::kAllReduce) continue;
    reduced.push_back({bucket->name, bucket->count * SizeOf(bucket->dtype)});
  }
  return reduced;
}

StatusOr<int64_t> CollectiveMode::Start(const Program& program, Scope& scope,
                                        const TensorMap& state, int64_t step,
                                        const std::function<bool()>& stop) {
  TD_RETURN_IF_ERROR(RefuseTableRules(program));
  scope_ = &scope;
  if (options_.peers_return) {
    const bool in_midst = options_.restarted || options_.has_state;
    return Meet(program, nullptr, step, in_midst ? Patience() : options_.start_timeout, stop);
  }
  if (communicators_.empty()) TD_RETURN_IF_ERROR(ConnectAll(options_.start_timeout, stop));

  // Rank 0 determines the step, the parameters and the state of all ranks.
  const Time deadline = SteadyNow() + options_.start_timeout;
  int64_t agreed = step;
  std::vector<std::shared_ptr<collective::Work>> works;
  collective::Communicator& first = *communicators_[0];
  works.push_back(
      hosts().Broadcast(&agreed, 1, DType::kI64, 0, {.what = "step", .deadline = deadline}));
  for (const auto& [name, tensor] : scope.tensors()) {
    if (program_.slots().Holds(name) || program_.params().Holds(name)) continue;
    works.push_back(first.Broadcast(tensor.data(), static_cast<size_t>(tensor.numel()),
                                    tensor.dtype(), 0, {.what = name, .deadline = deadline}));
  }
  // Waits for all of them, which their deadline ends, because they use this stack frame and the
  // scope.
  Status status;
  for (const auto& work : works) {
    const Status ended = work->Wait(Time::max());
    if (status.ok()) status = ended;
  }
  TD_RETURN_IF_ERROR(status);
  TD_RETURN_IF_ERROR(program_.slots().Scatter(hosts(), state, scope, deadline));
  TD_RETURN_IF_ERROR(program_.params().Scatter(hosts(), state, scope, deadline));
  if (dgc()) TD_RETURN_IF_ERROR(dgc()->Split(scope, agreed, options_.ranks));
  first_step_ = agreed;
  return agreed;
}

StatusOr<int64_t> CollectiveMode::Meet(const Program& program, StepRollback* point, int64_t begin,
                                       Duration timeout, const std::function<bool()>& stop) {
  const Time deadline = SteadyNow() + timeout;
  while (true) {
    communicators_.clear();
    Status status = ConnectAll(deadline - SteadyNow(), stop);
    if (status.ok()) status = AgreeOnWorld();
    if (status.ok()) {
      const int64_t mine = point != nullptr ? point->step() : options_.has_state ? begin : -1;
      StatusOr<int64_t> step =
          SyncStateFromMostAdvanced(*communicators_[0], program, *scope_, mine, point, begin);
      if (step.ok()) return step;
      status = step.status();
    }
    // Peers may already know of another world, or may not know of it yet.
    const bool of_other_world =
        options_.world_version > 0 && status.code() == StatusCode::kFailedPrecondition;
    const bool again = MayReturn(status) || of_other_world;
    if (!again || stop() || SteadyNow() >= deadline) return status;
    LOG(INFO) << "the ranks meet again after a failure: " << ToString(status);
    const Time next = SteadyNow() + kMeetPause;
    MutexLock lock(mu_);
    while (SteadyNow() < next) idle_.WaitUntil(mu_, next);
  }
}

// Worlds of the same size cannot be distinguished in the rendezvous.
Status CollectiveMode::AgreeOnWorld() {
  if (options_.world_version == 0) return OkStatus();
  std::vector<int64_t> versions(static_cast<size_t>(options_.ranks));
  TD_RETURN_IF_ERROR(hosts()
                         .AllGather(&options_.world_version, versions.data(), 1, DType::kI64,
                                    {.what = "rendezvous rounds"})
                         ->Wait(Time::max()));
  for (const int64_t version : versions) {
    if (version == options_.world_version) continue;
    return Aborted("this rank is in rendezvous round %d, but another rank is in round %d [TD3007]",
                   options_.world_version, version);
  }
  return OkStatus();
}

// The changes of the step are undone, or a rank that completed the step supplies its result. So all
// ranks continue with the same bits as without the failure.
StatusOr<int64_t> CollectiveMode::Recover(const Status& why, const Program& program,
                                          StepRollback& point, const std::function<bool()>& stop) {
  const bool broken = !communicators_.empty() && MayReturn(communicators_[0]->Health());
  if (!options_.peers_return || !broken) return why;
  StatusOr<int64_t> step = Meet(program, &point, 0, Patience(), stop);
  if (!step.ok() && stop()) return why;
  if (step.ok()) ++recoveries_;
  return step;
}

StatusOr<bool> CollectiveMode::Stopping(bool mine) {
  if (!state_is_spread()) return mine;
  return AnyRank(hosts(), mine, timeout());
}

StatusOr<TensorMap> CollectiveMode::State(const Program& program, const Scope& scope,
                                          Device& device) {
  TD_ASSIGN_OR_RETURN(TensorMap state, ScopeState(program, scope, device));
  const Time deadline = SteadyNow() + timeout();
  TD_RETURN_IF_ERROR(AsLostPeer(program_.slots().Gather(hosts(), scope, device, &state, deadline)));
  if (dgc()) TD_RETURN_IF_ERROR(AsLostPeer(dgc()->Sum(hosts(), &state, deadline)));
  return state;
}

StatusOr<TensorMap> CollectiveMode::Params(const Program& program, Scope& scope, Device& host) {
  if (!params_are_spread()) return ParamsOf(program, scope, host);
  TensorMap params;
  const Time deadline = SteadyNow() + timeout();
  TD_RETURN_IF_ERROR(AsLostPeer(program_.params().Gather(hosts(), scope, host, &params, deadline)));
  TD_RETURN_IF_ERROR(AsLostPeer(
      hosts().Barrier({.what = "all parameters are complete"})->Wait(SteadyNow() + timeout())));
  return params;
}

StatusOr<int64_t> CollectiveMode::Tell(int64_t value) {
  if (!params_are_spread()) return value;
  TD_RETURN_IF_ERROR(
      AsLostPeer(hosts()
                     .Broadcast(&value, 1, DType::kI64, 0, {.what = "the decision of rank 0"})
                     ->Wait(SteadyNow() + timeout())));
  return value;
}

StatusOr<int> CollectiveMode::Register(const CommNode& node) {
  TD_ASSIGN_OR_RETURN(auto bucket, CommBucket::Make(node, options_.rank, options_.ranks,
                                                    options_.half_communication));
  bucket->index = buckets_.size();
  if (!communicators_.empty()) TD_RETURN_IF_ERROR(GiveMemory(*bucket));
  buckets_.push_back(std::move(bucket));
  return static_cast<int>(buckets_.size()) - 1;
}

void CollectiveMode::Start(int index, int64_t step, CommDone* done) {
  const Flight flight = {buckets_[static_cast<size_t>(index)].get(), step, done};
  // NCCL connects in the first operations, and CUDA loads code. Work that waits for the device then
  // must not find kernels of different communicators on different ranks.
  const bool first_of_devices = control_ != nullptr && step == first_step_;
  const bool in_turn = options_.one_comm_at_a_time || first_of_devices;
  // A single communicator runs its operations in sequence anyway.
  if (!in_turn || communicators_.size() == 1) return Launch(flight, nullptr);
  {
    MutexLock lock(mu_);
    waiting_.push_back(flight);
    if (busy_) return;
    busy_ = true;
  }
  LaunchNext();
}

void CollectiveMode::LaunchNext() {
  Flight next;
  {
    MutexLock lock(mu_);
    busy_ = !waiting_.empty();
    if (!busy_) {
      idle_.NotifyAll();
      return;
    }
    next = waiting_.front();
    waiting_.pop_front();
  }
  Launch(next, [this] { LaunchNext(); });
}

void CollectiveMode::Launch(const Flight& flight, std::function<void()> then) {
  CommBucket* bucket = flight.bucket;
  const auto end = [this, bucket, flight, then = std::move(then)](const Status& status) {
    if (bucket->borrows && bucket->flat != nullptr) flats_.Give(std::move(bucket->flat));
    flight.done->Complete(
        AsLostPeer(Annotate(status, absl::StrFormat("step %d", DisplayStep(flight.step)))));
    if (then != nullptr) then();
  };
  if (bucket->is_flat && bucket->borrows) {
    StatusOr<Buffer> flat = flats_.Take(CommunicatorOf(*bucket));
    if (!flat.ok()) return end(flat.status());
    bucket->flat = *std::move(flat);
  }
  const StatusOr<size_t> given = bucket->Gather();
  if (!given.ok()) return end(given.status());
  launched_max_ = std::max(launched_max_.load(), ++launched_);
  waits_.Began();
  bytes_ += static_cast<int64_t>(*given * SizeOf(bucket->dtype));
  CommunicatorOf(*bucket)
      .Start(bucket->Call(*given))
      ->OnDone([this, bucket, count = *given, end](const Status& status) {
        --launched_;
        waits_.Ended();
        end(status.ok() ? bucket->Scatter(count) : status);
      });
}

void CollectiveMode::AddCounts(std::map<std::string, double>* counts) const {
  (*counts)["comm_at_once"] = static_cast<double>(launched_max_.load());
  (*counts)["comm_bytes"] = static_cast<double>(bytes_.load());
  (*counts)["comm_flat_bytes"] = static_cast<double>(flats_.bytes());
  (*counts)["communicators"] = static_cast<double>(communicators_.size());
  (*counts)["recoveries"] = recoveries_;
  if (const int steps = AverageSteps(); steps > 0) (*counts)["localsgd.k_steps"] = steps;
}

int CollectiveMode::AverageSteps() const {
  const Tensor* steps = scope_ == nullptr ? nullptr : scope_->Find(kAverageStepsVar);
  if (steps == nullptr || steps->place().kind != PlaceKind::kCpu) return 0;
  return static_cast<int>(steps->span<float>()[0]);
}

std::string CollectiveMode::News(int64_t step) {
  if (dgc()) return dgc()->News();
  const int now = AverageSteps(), before = std::exchange(told_steps_, now);
  if (now == before) return "";
  return absl::StrFormat("adaptive_localsgd: k_steps is %d after step %d", now, DisplayStep(step));
}

Status CollectiveMode::Finish() {
  // No rank may disconnect while another still reduces.
  return hosts().Barrier({.what = "end of the job"})->Wait(SteadyNow() + timeout());
}

}  // namespace

std::unique_ptr<ModeDriver> MakeCollectiveMode(
    const ModeOptions& options,
    std::vector<std::unique_ptr<collective::Communicator>> communicators) {
  return std::make_unique<CollectiveMode>(options, std::move(communicators));
}

}  // namespace tandem::trainer
