// One process of a job while the supervisor runs it, with its log and its shown output.
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

// The result of a report that another process waits for this one.
enum class WaitVerdict { kIgnore, kWarn, kKill };

// Not thread-safe.
struct JobProcess {
  // Opens the log. `plan` must outlive the object. Call Start before any other function.
  static StatusOr<std::unique_ptr<JobProcess>> Open(const ProcessPlan& plan);
  // Starts the process. REQUIRES: not started yet. Errors: those of Process::Start.
  Status Start(const SpawnRequest& request);

  bool is(Role role) const { return plan->role == role; }
  bool running() const { return process->running(); }
  // The exit status. REQUIRES: the process has ended.
  const ExitState& exit() const;
  // Returns true once, after the process has ended. Reads the rest of its output then.
  bool CollectEnd();
  // Whether a pserver ended after an error of its storage. Its successor uses the state in its
  // directory.
  bool StorageFailed() const;
  // Sends `signal` if the process runs.
  void Signal(int signal);
  // Shows stdout on `stdout_fd`, and stderr on stderr; -1: shows neither.
  void ShowOn(int stdout_fd);
  // Judges a wait of another process for this one. kKill: this process hangs, because the wait
  // reached its limit. kWarn is returned once a wait; the caller tells the user.
  WaitVerdict Judge(const ProcessWait& wait, Time now);

  const ProcessPlan* plan = nullptr;
  std::optional<Process> process;
  Time started = SteadyNow();
  std::optional<LogFile> log;
  std::vector<OutputChannel> output;  // used if the terminal shows this trainer
  bool seen_end = false;
  bool stuck = false;       // had to be killed
  bool here = false;        // reported that it had joined the job
  Duration unresponsive{};  // killed after this time without a reply; 0: not for this reason
  Time warned_of_wait{};    // time of the last warning that others wait for it
  bool member = true;  // member of an elastic job's world; false: it has not reported ready yet
};

}  // namespace tandem::deploy
