#include "trainer/stepped/stepped_training.h"

#include <utility>

#include "common/base/require.h"
#include "common/rpc/credentials/tls_files.h"
#include "common/rpc/credentials/token.h"
#include "common/strategy/strategy.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/graph/program_io.h"
#include "proto/job.pb.h"
#include "proto/program.pb.h"
#include "trainer/config/job_agreement.h"
#include "trainer/job/job.h"
#include "trainer/modes/make_mode.h"
#include "trainer/modes/rank_world.h"
#include "trainer/reader/open.h"
#include "trainer/session/dropout_offset.h"
#include "trainer/session/plan_options.h"
#include "trainer/session/programs.h"

namespace tandem::trainer {
namespace {

using Environment = std::map<std::string, std::string>;

std::string Variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// Rejects the settings that only the loop of a job implements.
Status CheckLoop(const JobConfig& config, const RankInfo& rank) {
  const DistributedStrategy& s = config.strategy();
  const std::pair<bool, const char*> rows[] = {
      {PlacesOf(config) > 1, "cpu_num above 1"},
      {s.batch_merge_repeats() > 1, "batch_merge_repeats above 1"},
      {s.pipeline(), "pipeline"},
      {s.sharding(), "sharding"},
      {s.auto_(), "auto"},
      {s.elastic() || !rank.world_file.empty(), "elastic"},
      {rank.peers_return, "max_restarts"},
      {rank.heter_workers > 0, "heter_workers"},
      {SamplesInStep(config), "use_dali"},
      {s.runtime_flags().reader_queue_speed_test_mode(), "reader_queue_speed_test_mode"},
      {!config.checkpoint().dir().empty(), "checkpoint.dir"},
      {!config.profile().dir().empty(), "profile.dir"},
      {config.verify_replay() != 0, "verify_replay"},
      {config.param_checksums() != 0, "param_checksums"},
  };
  for (const auto& [given, what] : rows) {
    if (!given) continue;
    return Unimplemented(
        "%s with a training loop in Python is not implemented [TD1109]; hint: use a job file, or "
        "leave the setting out",
        what);
  }
  return OkStatus();
}

std::string TextOf(const graph::Program& program) {
  pb::ProgramDef def;
  graph::ToProto(program, &def);
  return strategy::SaveText(def);
}

}  // namespace

StatusOr<std::unique_ptr<SteppedTraining>> SteppedTraining::Make(const Settings& settings,
                                                                 const Environment& environment) {
  std::unique_ptr<SteppedTraining> training(new SteppedTraining());
  TD_ASSIGN_OR_RETURN(RankInfo rank, RankFromEnv(environment));
  rank.network_allowed = Variable(environment, "TANDEM_INSECURE_ALLOW_NETWORK") == "1";
  JobSources sources;
  sources.overrides = settings;
  sources.environment = environment;
  sources.heter_workers = rank.heter_workers;
  sources.stepped_by_caller = true;
  TD_ASSIGN_OR_RETURN(training->job_, LoadJob(sources, rank.workers()));
  const JobConfig& config = training->config();
  TD_RETURN_IF_ERROR(CheckLoop(config, rank));
  if (!rank.secret_file.empty()) {
    TD_ASSIGN_OR_RETURN(training->secrets_.job, rpc::ReadSecretFile(rank.secret_file));
  }
  TD_ASSIGN_OR_RETURN(training->secrets_.tls,
                      rpc::ChooseTlsFiles(Variable(environment, "TANDEM_TLS_DIR"), {}));
  TD_RETURN_IF_ERROR(CheckNetwork(config, rank, training->secrets_.tls).status());
  training->secrets_.insecure_allow_network = rank.network_allowed;
  training->rank_ = std::move(rank);
  return training;
}

SteppedTraining::~SteppedTraining() {
  if (joined()) Abort(Cancelled("the program ended before the training"));
  if (mode_.membership != nullptr) mode_.membership->ReleaseDeviceResources();
}

Status SteppedTraining::AddTo(graph::Program* program) {
  TD_REQUIRE(mode_.owner == nullptr);
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(config().place()));
  if (program->loss.empty()) {
    std::vector<graph::ParamGrad> none;
    graph::PassPipeline passes(config().strategy(), nullptr, place.kind);
    return passes.Run(graph::PassStage::kForward, *program, none);
  }
  const CommonOptions common =
      CommonOptionsOf(config(), rank_, secrets_, AgreementOf(config(), TextOf(*program)));
  TD_ASSIGN_OR_RETURN(mode_, MakeMode(config(), rank_, common));
  JobPrograms programs;
  programs.forward = *program;
  TD_RETURN_IF_ERROR(mode_.programs->PlaceOperators(programs.forward));
  programs.train = programs.forward;
  const bool geo =
      config().strategy().a_sync() && config().strategy().a_sync_configs().k_steps() > 0;
  const double share = geo ? 1.0 : 1.0 / rank_.workers();
  TD_RETURN_IF_ERROR(AddTraining(config(), mode_, share, nullptr, &programs));
  *program = std::move(programs.train);
  return OkStatus();
}

StatusOr<exec::PlanOptions> SteppedTraining::PlanOptions(int threads) const {
  return PlanOptionsOf(config(), threads > 0 ? threads : ThreadsOf(config(), rank_));
}

StatusOr<int64_t> SteppedTraining::Join(const graph::Program& program, exec::Scope* scope,
                                        int64_t step, const Membership::Stop& stop) {
  TD_REQUIRE(mode_.owner != nullptr && scope != nullptr);
  if (state_ != State::kNew) {
    return FailedPrecondition("the training has %s [TD1219]; hint: build the program again",
                              joined() ? "joined before" : "ended");
  }
  StatusOr<int64_t> first = mode_.membership->Join(program, *scope, {}, step, stop);
  if (!first.ok()) {
    Abort(first.status());
    return first;
  }
  scope_ = scope;
  state_ = State::kJoined;
  return first;
}

Status SteppedTraining::CheckJoined() const {
  switch (state_) {
    case State::kNew:
      return FailedPrecondition("the training has not joined the other ranks [TD1219]");
    case State::kEnded:
      return FailedPrecondition(
          "the training has ended, so it cannot run another step [TD1219]; hint: run the steps "
          "before fleet.stop_worker(), or start the program again after a failure");
    case State::kJoined:
      break;
  }
  return OkStatus();
}

Status SteppedTraining::BeginStep(int64_t step, float learning_rate, int64_t batch) {
  TD_RETURN_IF_ERROR(CheckJoined());
  const reader::ReadShare share = {
      .global_batch = batch * rank_.workers(), .ranks = rank_.workers(), .rank = rank_.rank};
  TD_RETURN_IF_ERROR(
      PlaceDropout(*scope_, share,
                   {.seed = config().seed(), .step = step, .micro_batches = mode_.micro_batches}));
  return mode_.steps->BeginStep(step, learning_rate);
}

Status SteppedTraining::Gather() {
  TD_RETURN_IF_ERROR(CheckJoined());
  return mode_.tables == nullptr ? OkStatus() : mode_.tables->Gather();
}

Status SteppedTraining::Finish() {
  TD_RETURN_IF_ERROR(CheckJoined());
  Status status = mode_.membership->Finish();
  if (!status.ok()) {
    Abort(status);
    return status;
  }
  state_ = State::kEnded;
  return OkStatus();
}

void SteppedTraining::Abort(const Status& why) {
  if (mode_.membership != nullptr && state_ != State::kEnded) mode_.membership->Abort(why);
  state_ = State::kEnded;
}

}  // namespace tandem::trainer
