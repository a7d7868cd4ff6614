#include "trainer/session/local_replicas.h"

#include <optional>
#include <thread>

#include "collective/host/inproc.h"
#include "common/base/require.h"
#include "common/threads/runner.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/config/job_agreement.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/modes/make_mode.h"
#include "trainer/modes/thread_barrier_mode.h"
#include "trainer/reader/open_stream.h"
#include "trainer/reader/stream/stream_dataset.h"

namespace tandem::trainer {
namespace {

// Returns the rank of replica number `index` of the worker, which has `places` replicas.
RankInfo RankOf(RankInfo worker, int index, int places) {
  worker.rank = worker.rank * places + index;
  worker.size *= places;
  worker.local_rank = worker.local_rank * places + index;
  worker.local_size *= places;
  return worker;
}

// Returns whether the replicas reduce gradients in memory: always in a local job, and before each
// push in a trainer of pservers with use_thread_barrier.
bool Meet(const JobConfig& config) {
  if (PlacesOf(config) == 1) return false;
  const DistributedStrategy& strategy = config.strategy();
  const bool before_push = strategy.a_sync() && strategy.execution_strategy().use_thread_barrier();
  return config.mode() == LOCAL || (config.mode() == PSERVER && before_push);
}

// Makes the training mode of the replica with rank `place` in the process `worker`.
StatusOr<TrainingMode> PlaceMode(const JobConfig& config, const RankInfo& place,
                                 const RankInfo& worker, const CommonOptions& common,
                                 std::unique_ptr<collective::Communicator> communicator) {
  if (communicator == nullptr) return MakeMode(config, place, common);
  // The replicas of this worker are a separate world.
  CollectiveOptions within = CollectiveOptionsOf(config, place, common);
  within.common.ranks = PlacesOf(config);
  within.common.rank = place.rank - worker.rank * within.common.ranks;
  TD_REQUIRE(within.common.rank >= 0 && within.common.rank < within.common.ranks);
  std::vector<std::unique_ptr<collective::Communicator>> communicators;
  communicators.push_back(std::move(communicator));
  TrainingMode places = MakeCollectiveMode(within, std::move(communicators));
  if (config.mode() == LOCAL) return places;
  std::optional<TrainingMode> servers;
  if (within.common.leader()) {
    CommonOptions as_worker = common;
    as_worker.rank = worker.rank;
    as_worker.ranks = worker.size;
    TD_ASSIGN_OR_RETURN(servers, MakeMode(config, place, as_worker));
  }
  return MakeThreadBarrierMode(within.common, std::move(places), std::move(servers));
}

// Records the first failure of the replicas, because it causes the failures of the other replicas.
class FirstFailure {
 public:
  void Add(const Status& status) {
    MutexLock lock(mu_);
    if (first_.ok()) first_ = status;
  }
  Status Get() {
    MutexLock lock(mu_);
    return first_;
  }

 private:
  Mutex mu_;
  Status first_ TD_GUARDED_BY(mu_);
};

// Opens the data of a job, which may be a stream.
StatusOr<reader::TrainAndTest> OpenJobData(const JobConfig& config, const SessionOptions& options,
                                           bool with_test) {
  if (!config.data().has_stream()) {
    return reader::OpenData(config.data(), options.job_dir, with_test, SamplesInStep(config));
  }
  const DistributedStrategy& strategy = config.strategy();
  const bool apart =
      config.mode() == PSERVER && strategy.a_sync() && !strategy.a_sync_configs().half_async();
  const reader::StreamRank rank{
      .share = {.global_batch = static_cast<uint64_t>(options.global_batch),
                .ranks = static_cast<uint32_t>(options.rank.workers()),
                .rank = static_cast<uint32_t>(options.rank.rank)},
      .together = !apart};
  TD_ASSIGN_OR_RETURN(reader::TrainAndTest data,
                      reader::OpenStream(config.data(), options.job_dir, with_test, rank));
  LOG(INFO) << "the training records are " << data.train->Describe();
  return data;
}

}  // namespace

StatusOr<std::unique_ptr<LocalReplicas>> LocalReplicas::Make(const JobConfig& config,
                                                             SessionOptions options,
                                                             const ModeSecrets& secrets,
                                                             const Clock& clock) {
  std::unique_ptr<LocalReplicas> places(new LocalReplicas());
  const bool leader = options.rank.rank == 0;
  options.global_batch = GlobalBatch(config, options.rank.workers());
  // True: this worker is in the first pipeline, or is the first heter worker. Such a worker takes
  // part in evaluations.
  const bool section =
      options.rank.rank < (config.strategy().pipeline() ? config.model().sections() : 0) ||
      (options.rank.heter_workers > 0 && options.rank.rank == options.rank.workers());
  if (options.train == nullptr) {
    TD_ASSIGN_OR_RETURN(places->data_, OpenJobData(config, options, leader || section));
    for (const std::string& warning : places->data_.warnings) {
      if (leader) options.sink("warning: " + warning + "\n");
    }
    options.train = places->data_.train.get();
    options.test = places->data_.test.get();
    options.stream = dynamic_cast<const reader::StreamDataset*>(options.train);
  }
  if (config.mode() != LOCAL) {
    TD_ASSIGN_OR_RETURN(places->agreement_, AgreementOf(config, options.job_dir,
                                                        options.rank.workers(), *options.train));
  }

  const int count = PlacesOf(config);
  std::vector<std::unique_ptr<collective::Communicator>> communicators(static_cast<size_t>(count));
  if (Meet(config)) {
    collective::HostCommunicatorConfig memory;
    memory.operation_timeout = std::chrono::milliseconds(config.step_timeout_ms());
    memory.rule.tree_order = config.strategy().deterministic();
    communicators = collective::MakeInprocCommunicators(count, memory);
  }
  const RankInfo worker = options.rank;
  for (int i = 0; i < count; ++i) {
    SessionOptions own = options;
    own.rank = RankOf(worker, i, count);
    if (i > 0) {  // only the first replica reports to the user
      own.sink = [](std::string_view) {};
      own.board = nullptr;
    }
    const std::string name = count > 1 ? absl::StrFormat("place %d", i) : "";
    const Status status = places->AddPlace(config, std::move(own), secrets, worker,
                                           std::move(communicators[static_cast<size_t>(i)]), clock);
    TD_RETURN_IF_ERROR(count > 1 ? Annotate(status, name) : status);
  }
  return places;
}

LocalReplicas::~LocalReplicas() = default;

Status LocalReplicas::AddPlace(const JobConfig& config, SessionOptions options,
                               const ModeSecrets& secrets, const RankInfo& worker,
                               std::unique_ptr<collective::Communicator> communicator,
                               const Clock& clock) {
  CommonOptions common = CommonOptionsOf(config, options.rank, secrets, agreement_);
  common.job_dir = options.job_dir;
  TD_ASSIGN_OR_RETURN(TrainingMode mode,
                      PlaceMode(config, options.rank, worker, common, std::move(communicator)));
  TD_ASSIGN_OR_RETURN(auto session,
                      Session::Make(config, std::move(options), std::move(mode), clock));
  places_.push_back(std::move(session));
  return OkStatus();
}

StatusOr<SessionResult> LocalReplicas::Run() {
  TD_REQUIRE(!places_.empty());
  if (places_.size() == 1) return places_[0]->Run();
  FirstFailure failure;
  StatusOr<SessionResult> first =
      Internal("the first replica of this process did not run the step");
  std::vector<std::thread> threads;
  for (size_t i = 0; i < places_.size(); ++i) {
    threads.emplace_back([this, i, &failure, &first] {
      SetThreadName(absl::StrFormat("place %d", i));
      StatusOr<SessionResult> result = places_[i]->Run();
      if (!result.ok()) failure.Add(Annotate(result.status(), absl::StrFormat("place %d", i)));
      if (i == 0) first = std::move(result);
    });
  }
  for (std::thread& thread : threads) thread.join();
  TD_RETURN_IF_ERROR(failure.Get());
  return first;
}

void LocalReplicas::RequestStop() {
  for (const auto& place : places_) place->RequestStop();
}

StatusOr<SessionResult> StopSwitch::Run(LocalReplicas& places) {
  Set(&places);
  StatusOr<SessionResult> result = places.Run();
  Set(nullptr);
  return result;
}

void StopSwitch::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  told_.NotifyAll();
  if (running_ != nullptr) running_->RequestStop();
}

bool StopSwitch::WaitFor(Duration time) {
  const Time until = SteadyNow() + time;
  MutexLock lock(mu_);
  while (!stopped_ && SteadyNow() < until) told_.WaitUntil(mu_, until);
  return stopped_;
}

void StopSwitch::Set(LocalReplicas* places) {
  MutexLock lock(mu_);
  running_ = places;
  if (stopped_ && running_ != nullptr) running_->RequestStop();
}

}  // namespace tandem::trainer
