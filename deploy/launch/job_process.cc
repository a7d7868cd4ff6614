#include "deploy/launch/job_process.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "common/base/require.h"

namespace tandem::deploy {

StatusOr<std::unique_ptr<JobProcess>> JobProcess::Open(const ProcessPlan& plan) {
  auto opened = std::make_unique<JobProcess>();
  opened->plan = &plan;
  TD_ASSIGN_OR_RETURN(LogFile log, LogFile::Open(plan.log_file));
  opened->log.emplace(std::move(log));
  return opened;
}

Status JobProcess::Start(const SpawnRequest& request) {
  TD_REQUIRE(!process);
  TD_ASSIGN_OR_RETURN(Process begun, Process::Start(request));
  process.emplace(std::move(begun));
  for (OutputChannel& channel : output) channel.CloseChildEnd();
  return OkStatus();
}

const ExitState& JobProcess::exit() const {
  TD_REQUIRE(process && !process->running());
  return *process->state();
}

bool JobProcess::CollectEnd() {
  if (seen_end || !process->Poll()) return false;
  seen_end = true;
  for (OutputChannel& channel : output) channel.Drain();
  if (output.empty()) log->LookForRoom();
  return true;
}

bool JobProcess::StorageFailed() const {
  return !is(Role::kTrainer) && exit().signal == 0 && exit().code == kExitStorage;
}

void JobProcess::Signal(int signal) {
  if (!running()) return;
  stuck = stuck || signal == SIGKILL;
  process->Signal(signal);
}

void JobProcess::ShowOn(int stdout_fd) {
  TD_REQUIRE(output.empty() || output.size() == 2);
  for (size_t i = 0; i < output.size(); ++i) {
    output[i].ShowOn(stdout_fd < 0 ? -1 : i == 0 ? stdout_fd : STDERR_FILENO);
  }
}

WaitVerdict JobProcess::Judge(const ProcessWait& wait, Time now) {
  const Time began = now - wait.waited;
  // The process was already killed for a wait, or the report is about its predecessor. In the
  // second case this process is still starting.
  if (unresponsive > Duration::zero() || started > began) return WaitVerdict::kIgnore;
  if (wait.waited >= (here ? wait.limit : wait.start_limit)) return WaitVerdict::kKill;
  if (warned_of_wait >= began) return WaitVerdict::kIgnore;
  warned_of_wait = now;
  return WaitVerdict::kWarn;
}

}  // namespace tandem::deploy
