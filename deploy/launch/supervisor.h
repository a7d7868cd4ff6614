// Starts the processes of a plan, waits for them, and terminates all of them at the end.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/first_failure.h"
#include "deploy/launch/job_journal.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/process/process.h"
#include "deploy/launch/pserver_sockets.h"
#include "deploy/launch/rank_reports.h"
#include "deploy/launch/stop_sequence.h"
#include "deploy/launch/world_membership.h"

namespace tandem::deploy {

// Runs a job in the phases of StopSequence. A second SIGINT or SIGTERM kills all processes
// immediately. Not thread-safe; waits only in poll().
class Supervisor {
 public:
  struct Options {
    Environment env;  // inherited by the children
    int grace_s = 10;
    int max_restarts = 0;            // restarts of killed processes that can return
    bool quiet = false;              // do not show trainer 0's output
    bool only_stderr = false;        // show its stdout on stderr: stdout has another use
    const char* name = "tandemrun";  // prefix of messages
  };

  Supervisor(const LaunchPlan& plan, Options options);
  ~Supervisor();  // kills the processes that still run

  // Runs the job; blocks until every process has ended. Handles SIGINT, SIGTERM, SIGHUP, SIGCHLD
  // and SIGWINCH meanwhile, and SIGUSR1 for an elastic job. Returns the exit code of the job: 0,
  // that of the first failure, or 128 + the signal that ended the job. Returns an error if a
  // process could not be started; no process runs then. REQUIRES: PrepareFiles(plan) was OK; one
  // call, from the main thread.
  StatusOr<int> Run();

 private:
  Status StartAll();
  // `again`: it replaces another process. `member`: see JobProcess::member.
  Status Start(const ProcessPlan& plan, bool again = false, bool member = true);
  Status OpenOutput(JobProcess& process, SpawnRequest& request);
  void Loop();
  void WaitForEvents();
  void OnSignal(int signal);
  void HandleReports();
  // Warns the user about a wait, and kills the awaited process after its limit: it hangs.
  void OnWait(const ProcessWait& wait);
  void OnEnded(std::vector<JobProcess*> ended);
  // Whether another program stopped the pserver while trainers run; tandemrun stops pservers last.
  bool WasStopped(const JobProcess& process) const;
  // Removes drained pservers from `ended`: the job does not need them.
  void ReleaseDrained(std::vector<JobProcess*>& ended);
  // Restarts processes that died and can return, and removes them from `ended`.
  void Restart(std::vector<JobProcess*>& ended);
  bool MayRestart(const ProcessPlan& plan) const;
  // Starts a new process in place of `old`, which is destroyed.
  void StartAgain(JobProcess& old, bool member);
  void Replace(const JobProcess& old, bool member);
  // Removes killed ranks of an elastic job from the world, and from `ended`, if the job can
  // continue without them. A successor must first report that it is ready.
  void LoseRanks(std::vector<JobProcess*>& ended);
  void Admit(int rank);  // which has reported ready
  void StartLostRanks();
  // Notifies the running ranks of the members, and shows the output of the lowest one.
  void PublishWorld();
  int shown_stdout() const { return options_.only_stderr ? 2 : 1; }
  // Whether some ranks have reached the end of the job: a successor would find no peers.
  bool Over() const { return plan_.ranks_return() && processes_.AnyDone(); }
  void BlameOneOf(const std::vector<JobProcess*>& ended);
  // Does what the phase requires now: stops or kills processes.
  void Advance();
  void StopTrainers(int signal);
  void StopPservers();
  int Conclude();

  const LaunchPlan plan_;
  const Options options_;
  const Time started_;
  Fd signals_;
  RankReportFifo reports_;
  PserverSockets sockets_;
  JobJournal journal_;
  JobProcesses processes_;
  StopSequence stop_;
  WorldMembership world_;
  FirstFailure failure_;
  int restarts_ = 0;
  bool told_remote_ = false;
};

}  // namespace tandem::deploy
