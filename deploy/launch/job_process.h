// One process of a job under the supervisor: the process, its log, and its output on the terminal.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/process/log_file.h"
#include "deploy/launch/process/output.h"
#include "deploy/launch/process/process.h"
#include "deploy/launch/rank_reports.h"

namespace tandem::deploy {

// The supervisor's action after a report that another process waits for this process.
enum class WaitVerdict { kIgnore, kWarn, kKill };

// A process of a job. Not thread-safe.
struct JobProcess {
  // Opens the log of the process. `plan` must outlive the object. The caller calls Start before all
  // other methods.
  static StatusOr<std::unique_ptr<JobProcess>> Open(const ProcessPlan& plan);
  // Starts the process. REQUIRES: not started yet. Errors: those of Process::Start.
  Status Start(const SpawnRequest& request);

  bool is(Role role) const { return plan->role == role; }
  bool running() const { return process->running(); }
  // Returns the exit status. REQUIRES: the process has ended.
  const ExitState& exit() const;
  // Returns true in the first call after the process has ended. This call also reads the remaining
  // output.
  bool CollectEnd();
  // Returns whether the process is a pserver or a replica that ended because its storage failed. A
  // new process can use the state in its data directory.
  bool StorageFailed() const;
  // Sends `signal` to the process, if the process is running.
  void Signal(int signal);
  // Shows the stdout of the process on `stdout_fd`, and its stderr on stderr. `stdout_fd` -1: shows
  // neither stdout nor stderr.
  void ShowOn(int stdout_fd);
  // Decides what to do about the wait of another process for this process. kKill: this process
  // hangs, because the wait has reached its limit. kWarn: the caller must tell the user; returned
  // once per wait. kIgnore: the caller does nothing.
  WaitVerdict Judge(const ProcessWait& wait, Time now);

  const ProcessPlan* plan = nullptr;
  // Socket to a member of a pserver (member_messages.h). Not valid: no member.
  Fd member_socket;
  bool standby = false;  // true: a member of a pserver that is not its primary
  std::optional<Process> process;
  Time started = SteadyNow();
  std::optional<LogFile> log;
  // Channels for stdout and stderr; used only if the terminal may show this trainer.
  std::vector<OutputChannel> output;
  bool seen_end = false;
  bool stuck = false;       // true: the launcher sent SIGKILL to the process
  bool here = false;        // true: the process reported that it has joined the job
  Duration unresponsive{};  // wait after which the unresponsive process was killed; 0: not killed
                            // for this
  Time warned_of_wait{};    // time of the last warning that other processes wait for this one
  // In an elastic job: whether the process is a member of the world. A new process becomes a member
  // after it has reported that it is ready.
  bool member = true;
};

}  // namespace tandem::deploy
