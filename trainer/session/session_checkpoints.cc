#include "trainer/session/session_checkpoints.h"

#include <utility>

#include "common/base/require.h"
#include "proto/job.pb.h"
#include "trainer/config/effective_job.h"
#include "trainer/config/job_changes.h"
#include "trainer/modes/state/scope_state.h"
#include "trainer/modes/table_checks.h"
#include "trainer/monitoring/status_reporter.h"

namespace tandem::trainer {

Status SendStateToRank0(const TrainingMode& mode, const graph::Program& program, exec::Scope& scope,
                        Device& host) {
  const StateKeeper& state = *mode.state;
  TD_REQUIRE(state.state_is_spread() || !state.params_are_spread());
  if (!state.state_is_spread()) return OkStatus();
  TD_RETURN_IF_ERROR(mode.state->State(program, scope, host).status());
  if (!state.params_are_spread()) return OkStatus();
  return mode.state->Params(program, scope, host).status();
}

SessionCheckpoints::SessionCheckpoints(const JobConfig& config, const SessionOptions& options,
                                       const TrainingMode& mode, Device& host)
    : config_(config),
      options_(options),
      mode_(mode),
      host_(host),
      store_(InJobDir(options.job_dir, config.checkpoint().dir()), config.checkpoint().keep()) {}

StatusOr<SessionCheckpoints::Resumed> SessionCheckpoints::Resume(int64_t steps_per_epoch,
                                                                 exec::Scope& scope,
                                                                 const Warn& warn) {
  TD_RETURN_IF_ERROR(store_.Claim());
  TD_ASSIGN_OR_RETURN(const std::vector<uint64_t> there, store_.Steps());
  if (there.empty()) return Resumed();
  // A restarted process finds checkpoints that its own job has written. Such checkpoints are no
  // error.
  if (!config_.checkpoint().resume() && !options_.rank.restarted) {
    return FailedPrecondition(
        "%s contains checkpoints up to step %d, but checkpoint.resume is false [TD2104]; hint: "
        "choose another checkpoint.dir, or empty this directory",
        store_.dir(), there.back());
  }
  std::vector<std::string> warnings;
  TD_ASSIGN_OR_RETURN(Checkpoint checkpoint, store_.LoadNewest(host_, &warnings));
  for (const std::string& warning : warnings) warn(warning);
  if (checkpoint.job != config_.name()) {
    return FailedPrecondition(
        "%s contains checkpoints of job \"%s\", not of job \"%s\" [TD2104]; hint: choose another "
        "checkpoint.dir",
        store_.dir(), checkpoint.job, config_.name());
  }
  TD_RETURN_IF_ERROR(PutInto(checkpoint.params, store_.dir(), scope));
  TD_RETURN_IF_ERROR(PutInto(checkpoint.state, store_.dir(), scope));
  TD_RETURN_IF_ERROR(mode_.tables != nullptr ? mode_.tables->ReadFrom(checkpoint.tables)
                                             : RefuseTableFile(checkpoint.tables));
  if (mode_.state->params_are_spread()) checkpoint.state.merge(checkpoint.params);
  std::string changes = ChangesOfJob(checkpoint.job_config, options_.job_text);
  const auto steps_before = static_cast<int64_t>(checkpoint.epoch_steps);
  if (steps_before != 0 && steps_before != steps_per_epoch) {
    absl::StrAppendFormat(&changes,
                          "%ssteps of an epoch changed from %d to %d, so samples of this epoch are "
                          "repeated or skipped",
                          changes.empty() ? "" : ", ", steps_before, steps_per_epoch);
  }
  return Resumed{static_cast<int64_t>(checkpoint.step), std::move(changes),
                 std::move(checkpoint.state)};
}

// With gradient_merge the checkpoint contains the state of the last update. A resumed job repeats
// the steps since this update.
Status SessionCheckpoints::Save(int64_t steps_done, int64_t steps_per_epoch,
                                const graph::Program& program, exec::Scope& scope,
                                const Warn& warn) {
  TD_REQUIRE(steps_done >= 0 && steps_per_epoch > 0);
  if (const auto& strategy = config_.strategy(); strategy.gradient_merge()) {
    steps_done -= steps_done % strategy.gradient_merge_configs().k_steps();
  }
  Checkpoint checkpoint;
  checkpoint.job = config_.name();
  checkpoint.step = static_cast<uint64_t>(steps_done);
  checkpoint.epoch = static_cast<uint64_t>(steps_done / steps_per_epoch);
  checkpoint.epoch_step = static_cast<uint64_t>(steps_done % steps_per_epoch);
  checkpoint.epoch_steps = static_cast<uint64_t>(steps_per_epoch);
  checkpoint.seed = config_.seed();
  checkpoint.job_config = options_.job_text;
  TD_ASSIGN_OR_RETURN(checkpoint.state, mode_.state->State(program, scope, host_));
  TD_ASSIGN_OR_RETURN(checkpoint.params, mode_.state->Params(program, scope, host_));
  if (mode_.tables != nullptr) checkpoint.write_tables = mode_.tables->Writer();
  std::vector<std::string> warnings;
  TD_RETURN_IF_ERROR(store_.Save(checkpoint, &warnings));
  for (const std::string& warning : warnings) warn(warning);
  if (options_.board != nullptr) options_.board->Checkpoint(steps_done);
  return OkStatus();
}

}  // namespace tandem::trainer
