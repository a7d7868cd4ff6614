// One process of a job, while the supervisor runs it, with its log and its output on the terminal.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/process/log_file.h"
#include "deploy/launch/process/output.h"
#include "deploy/launch/process/process.h"
#include "deploy/launch/rank_reports.h"

namespace tandem::deploy {

// The action after a report that another process waits for this process.
enum class WaitVerdict { kIgnore, kWarn, kKill };

// A process of a job. Not thread-safe.
struct JobProcess {
  // Opens the log of the process. `plan` must outlive the object. Call Start first.
  static StatusOr<std::unique_ptr<JobProcess>> Open(const ProcessPlan& plan);
  // Starts the process. REQUIRES: not started yet. Errors: those of Process::Start.
  Status Start(const SpawnRequest& request);

  bool is(Role role) const { return plan->role == role; }
  bool running() const { return process->running(); }
  // Returns the exit status. REQUIRES: the process has ended.
  const ExitState& exit() const;
  // Returns true once, after the process has ended. That call also reads the remaining output.
  bool CollectEnd();
  // Returns whether the process is a pserver that ended because its storage failed. A new process
  // can use the state in the directory of this pserver.
  bool StorageFailed() const;
  // Sends `signal` to the process, if it is running.
  void Signal(int signal);
  // Shows the stdout of the process on `stdout_fd`, and its stderr on stderr. -1: shows neither.
  void ShowOn(int stdout_fd);
  // Judges the wait of another process for this one. kKill: this process hangs, because the wait
  // has reached its limit. kWarn: the caller must tell the user, once per wait.
  WaitVerdict Judge(const ProcessWait& wait, Time now);

  const ProcessPlan* plan = nullptr;
  std::optional<Process> process;
  Time started = SteadyNow();
  std::optional<LogFile> log;
  // Channels for stdout and stderr; used only if the terminal may show this trainer.
  std::vector<OutputChannel> output;
  bool seen_end = false;
  bool stuck = false;       // true: the process had to be killed
  bool here = false;        // true: the process reported that it has joined the job
  Duration unresponsive{};  // killed after this time without a reply; 0: not killed for this reason
  Time warned_of_wait{};    // time of the last warning that other processes wait for this one
  // In an elastic job: whether the process is a member of the world. A new process becomes a member
  // after it has reported that it is ready.
  bool member = true;
};

}  // namespace tandem::deploy
