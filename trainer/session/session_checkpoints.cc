#include "trainer/session/session_checkpoints.h"

#include <utility>

#include "proto/job.pb.h"
#include "trainer/job/job.h"
#include "trainer/job/job_changes.h"
#include "trainer/monitoring/status_reporter.h"

namespace tandem::trainer {

Status SetFirstValues(const JobConfig& config, const SessionOptions& options,
                      const Program& program, Scope& scope, Device& host, std::string* notes) {
  TD_RETURN_IF_ERROR(Initialize(program, config.seed(), scope));
  if (config.model().parameters().empty()) return OkStatus();
  const std::string path = InJobDir(options.job_dir, config.model().parameters());
  TD_ASSIGN_OR_RETURN(const Safetensors file, ReadSafetensors(path, host));
  TD_RETURN_IF_ERROR(PutInto(file.tensors, path, scope));
  for (const Op& op : program.ops) {
    if (op.type != "push_rows" || !file.tensors.contains(op.inputs[0][0])) continue;
    return Unimplemented(
        "%s: table \"%s\" exists only on pservers, which create its rows on first use, so it "
        "cannot be initialised from a file [TD2105]; hint: use a dense table (model argument "
        "sparse=0)",
        path, op.inputs[0][0]);
  }
  size_t taken = 0;
  for (const auto& [name, tensor] : file.tensors) taken += program.FindVar(name) != nullptr ? 1 : 0;
  if (taken == 0)
    return NotFound("%s: none of its tensors is a variable of the model [TD2105]", path);
  std::string others;
  for (const Var* var : program.VarsOf(VarKind::kParam)) {
    if (!file.tensors.contains(var->name)) others += (others.empty() ? "" : ", ") + var->name;
  }
  *notes += absl::StrFormat("parameters: %d of %d tensors of %s are loaded%s\n", taken,
                            file.tensors.size(), path,
                            others.empty() ? "" : "; initialised by the program: " + others);
  return OkStatus();
}

Status SendStateToRank0(ModeDriver& mode, const Program& program, Scope& scope, Device& host) {
  if (!mode.state_is_spread()) return OkStatus();
  TD_RETURN_IF_ERROR(mode.State(program, scope, host).status());
  return mode.params_are_spread() ? mode.Params(program, scope, host).status() : OkStatus();
}

SessionCheckpoints::SessionCheckpoints(const JobConfig& config, const SessionOptions& options,
                                       ModeDriver& mode, Device& host)
    : config_(config),
      options_(options),
      mode_(mode),
      host_(host),
      store_(InJobDir(options.job_dir, config.checkpoint().dir()), config.checkpoint().keep()) {}

StatusOr<SessionCheckpoints::Resumed> SessionCheckpoints::Resume(int64_t steps_per_epoch,
                                                                 Scope& scope, const Warn& warn) {
  TD_RETURN_IF_ERROR(store_.Claim());
  TD_ASSIGN_OR_RETURN(const std::vector<uint64_t> there, store_.Steps());
  if (there.empty()) return Resumed();
  // Checkpoints that this very job has written are expected.
  if (!config_.checkpoint().resume() && !options_.rank.restarted) {
    return FailedPrecondition(
        "%s contains checkpoints up to step %d, but checkpoint.resume is false [TD2104]; hint: "
        "choose another checkpoint.dir, or empty this one",
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
  TD_RETURN_IF_ERROR(mode_.TakeTables(checkpoint.tables));
  if (mode_.params_are_spread()) checkpoint.state.merge(checkpoint.params);
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

// In gradient_merge the state is that of the last update; the steps since then run again.
Status SessionCheckpoints::Save(int64_t steps_done, int64_t steps_per_epoch, const Program& program,
                                Scope& scope, const Warn& warn) {
  if (const auto& strategy = config_.strategy(); strategy.gradient_merge())
    steps_done -= steps_done % strategy.gradient_merge_configs().k_steps();
  Checkpoint checkpoint;
  checkpoint.job = config_.name();
  checkpoint.step = static_cast<uint64_t>(steps_done);
  checkpoint.epoch = static_cast<uint64_t>(steps_done / steps_per_epoch);
  checkpoint.epoch_step = static_cast<uint64_t>(steps_done % steps_per_epoch);
  checkpoint.epoch_steps = static_cast<uint64_t>(steps_per_epoch);
  checkpoint.seed = config_.seed();
  checkpoint.job_config = options_.job_text;
  TD_ASSIGN_OR_RETURN(checkpoint.state, mode_.State(program, scope, host_));
  TD_ASSIGN_OR_RETURN(checkpoint.params, mode_.Params(program, scope, host_));
  checkpoint.write_tables = mode_.table_writer();
  std::vector<std::string> warnings;
  TD_RETURN_IF_ERROR(store_.Save(checkpoint, &warnings));
  for (const std::string& warning : warnings) warn(warning);
  if (options_.board != nullptr) options_.board->Checkpoint(steps_done);
  return OkStatus();
}

}  // namespace tandem::trainer
