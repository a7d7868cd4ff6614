#include "deploy/launch/first_failure.h"

#include <signal.h>

#include <algorithm>

#include "common/base/require.h"
#include "deploy/launch/job_record.h"
#include "deploy/launch/options/endpoints.h"

namespace tandem::deploy {
namespace {

constexpr size_t kReportLines = 20;
constexpr size_t kLineBytesMax = 4096;  // a longer line of a log is cut in the report

Failure FailureOf(JobProcess& process, Time started) {
  Failure failure;
  failure.role = process.plan->Kind();
  failure.rank = process.plan->rank;
  failure.host = HostName();
  failure.pid = process.process->pid();
  const std::optional<ExitState>& exit = process.process->Poll();
  // A process without an exit status was killed and has not ended yet.
  failure.exit = exit ? *exit : ExitState{.signal = SIGKILL};
  failure.early = failure.exit.ok();
  failure.stuck = process.stuck;
  failure.silent_s = Seconds(process.unresponsive);
  failure.after_s = Seconds(SteadyNow() - started);
  failure.time = WallClockText();
  failure.log_file = process.plan->log_file;
  failure.last_lines = LastLines(failure.log_file, kReportLines);
  for (std::string& line : failure.last_lines) line.resize(std::min(line.size(), kLineBytesMax));
  return failure;
}

}  // namespace

const Failure& FirstFailure::get() const {
  TD_REQUIRE(known());
  return *failure_;
}

Failure FirstFailure::Describe(JobProcess& process) const { return FailureOf(process, started_); }

void FirstFailure::Adopt(const Failure& failure) {
  TD_REQUIRE(!known());
  failure_ = failure;
}

void FirstFailure::BlameOneOf(const std::vector<JobProcess*>& failed) {
  if (known()) return;
  JobProcess* culprit = nullptr;
  for (JobProcess* process : failed) {
    if (culprit == nullptr || (IsConsequence(culprit->exit()) && !IsConsequence(process->exit()))) {
      culprit = process;
    }
  }
  if (culprit != nullptr) Adopt(Describe(*culprit));
}

void FirstFailure::PreferUnresponsive(const JobProcesses& processes, Duration grace) {
  if (!known() || failure_->role == "host" || failure_->silent_s > 0 ||
      failure_->exit.code != kExitLostPeer)
    return;
  for (const auto& process : processes.all()) {
    if (!process->is(Role::kTrainer) || !process->running()) continue;
    process->unresponsive = grace;
    failure_ = FailureOf(*process, started_);
    return;
  }
}

}  // namespace tandem::deploy
