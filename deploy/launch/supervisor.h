// Starts the processes of a plan, waits until they have ended, and terminates the remaining ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/first_failure.h"
#include "deploy/launch/hosts/host_group.h"
#include "deploy/launch/job_journal.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/job_scale.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/member_sockets.h"
#include "deploy/launch/process/process.h"
#include "deploy/launch/pserver_scaling.h"
#include "deploy/launch/pserver_sockets.h"
#include "deploy/launch/rank_reports.h"
#include "deploy/launch/replica_restarts.h"
#include "deploy/launch/scale_metrics.h"
#include "deploy/launch/stop_sequence.h"
#include "deploy/launch/world_membership.h"

namespace tandem::deploy {

// Runs the processes of a job on this host, in the phases of StopSequence. JobDirector decides
// about the whole job, in this process or on the leading host. A second SIGINT or SIGTERM kills all
// processes immediately. Not thread-safe. It blocks only in poll().
class Supervisor {
 public:
  struct Options {
    Environment env;  // environment that the child processes inherit
    int grace_s = 10;
    int max_restarts = 0;  // maximum number of restarts of processes that can return
    // Time after which other hosts take this host for lost, if this process does not run.
    Duration host_timeout = std::chrono::seconds(5);
    bool quiet = false;  // true: do not show the output of trainer 0
    // true: show the stdout of trainer 0 on stderr, because stdout has another use.
    bool only_stderr = false;
    std::string metrics_listen;      // HOST:PORT of the page of metrics; empty: no page
    const char* name = "tandemrun";  // first word of messages to the user
  };

  // `group`: the hosts of the job, of which this host is one. null: the job runs on this host only.
  Supervisor(const LaunchPlan& plan, Options options, std::unique_ptr<HostGroup> group = nullptr);
  ~Supervisor();  // kills the processes that are still running

  // Runs the job and blocks until every process has ended. Returns the exit code of the job: 0, the
  // code of the first failure, or 128 + the signal that ended the job. Returns an error if a
  // process could not be started; no process is running after such an error. Run handles SIGINT,
  // SIGTERM, SIGHUP, SIGCHLD and SIGWINCH, and SIGUSR1 for an elastic job. REQUIRES:
  // PrepareFiles(plan) was OK. The caller calls Run once, on the main thread.
  StatusOr<int> Run();
  // Returns whether the job ended because the leading host was lost, and another run of the job can
  // continue it (LaunchPlan::joins_again).
  bool CanJoinAgain() const;

 private:
  Status StartAll();
  Status OpenWorld();
  // Starts a process. `again`: the process replaces an earlier process of its rank. `member`: see
  // JobProcess::member.
  Status Start(const ProcessPlan& plan, bool again = false, bool member = true);
  Status OpenOutput(JobProcess& process, SpawnRequest& request);
  void Loop();
  void WaitForEvents();
  void RenewLeaseIfDue();
  void OnSignal(int signal);
  void Stop(int signal);
  void Leave(int signal);
  void HandleReports();
  void CarryOutOrders();
  void CarryOut(const JobOrder& order);
  // Adds an event about a process of this host to the events of all hosts.
  void NoteOnAllHosts(const char* event, const JobProcess& process, const std::string& text);
  // Handles a report that a process waits for another process.
  void OnWait(const ProcessWait& wait);
  // Warns the user of a wait for a process of this host. If the wait has reached its limit, the
  // awaited process hangs, and JudgeWait kills it.
  void JudgeWait(const ProcessWait& wait);
  // A standby of this host has become the primary of its pserver.
  void OnPrimary(const JobOrder& order);
  void Kill(const JobOrder& order);
  void ReportMembers(const std::vector<MemberNews>& news);
  void OnEnded(std::vector<JobProcess*> ended);
  // Returns whether another program stopped the pserver, which ended while trainers are running.
  // tandemrun itself stops pservers after the trainers.
  bool WasStopped(const JobProcess& process) const;
  // Returns whether trainers of the job run, on this host or on another one.
  bool TrainersRun() const {
    return processes_.AnyRunning(Role::kTrainer) || (!group_->alone() && !finished_);
  }
  ProcessEnd EndOf(JobProcess& process) const;
  bool IsDrained(const JobProcess& process) const;  // true: a drained pserver
  // Removes drained pservers from `ended`, because the job does not need these pservers.
  void ReleaseDrained(std::vector<JobProcess*>& ended);
  // Plans the restart of replicas that have ended, and removes all replicas from `ended`. The end
  // of a replica never ends the job.
  void HandleReplicas(std::vector<JobProcess*>& ended);
  void StartReplicas();  // starts the replicas whose pauses have ended
  // Starts a new process with the plan of `old`, as restart `number` of the job. Destroys `old`.
  void StartAgain(JobProcess& old, int number, bool member);
  void Replace(const JobProcess& old, bool member);
  // Starts lost ranks of an elastic job. `only`: these ranks; empty: all of them.
  void StartLostRanks(const std::vector<int>& only);
  // Carries out a request of `tandem scale`.
  void Scale(const ScaleRequest& request);
  void UpdateScale();  // shows the present numbers of processes
  // Tells the running ranks which ranks are members, and shows the lowest member's output.
  void EnterWorld(const JobOrder& order);
  int shown_stdout() const { return options_.only_stderr ? 2 : 1; }
  void BlameOneOf(const std::vector<JobProcess*>& ended);
  // Stops or kills processes, as the current phase requires.
  void Advance();
  void StopTrainers(int signal);
  void StopPservers();
  int Conclude();

  const LaunchPlan plan_;
  const Options options_;
  const std::unique_ptr<HostGroup> group_;
  const Time started_;
  Fd signals_;
  RankReportFifo reports_;
  PserverSockets sockets_;
  JobJournal journal_;
  JobScale scale_;                               // has plans of processes_
  std::unique_ptr<ScaleMetrics> scale_metrics_;  // null: no page
  JobProcesses processes_;
  MemberSockets members_;
  PserverScaling pserver_scaling_;
  StopSequence stop_;
  WorldMembership world_;
  FirstFailure failure_;
  ReplicaRestarts replicas_;
  int restarts_ = 0;   // number of restarts of the job, as far as this host knows
  bool over_ = false;  // an elastic job accepts no further ranks, because a rank is done
  Time lease_renewed_at_{};
  bool asked_to_leave_ = false;  // this host has asked to leave an elastic job
  bool signalled_ = false;       // this host has received a signal that stops the job
  bool finished_ = false;        // all trainers of the job have ended, on all hosts
  Status not_started_;           // why a lost process could not be started again; OK: it could
  bool told_remote_ = false;
};

}  // namespace tandem::deploy
