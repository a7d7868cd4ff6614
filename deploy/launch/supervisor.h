// Starts the processes of a plan, waits for them, and terminates all of them at the end.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/launch/failure_report.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/output.h"
#include "deploy/launch/process.h"
#include "deploy/launch/pserver_sockets.h"
#include "deploy/launch/rank_reports.h"

namespace tandem::deploy {

// The phases of a job:
//   running    until all trainers have ended with 0, or a failure, or a signal
//   trainers   get SIGTERM (or the received signal), and SIGKILL after grace_s
//   pservers   get SIGTERM once no trainer runs, and SIGKILL after grace_s
// A second SIGINT or SIGTERM kills all processes immediately. Not thread-safe; waits only in
// poll().
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
  enum class Phase { kRunning, kStoppingTrainers, kStoppingPservers };
  struct Child;

  Status StartAll();
  // `member`: see Child::member.
  Status Start(const ProcessPlan& plan, bool again = false, bool member = true);
  Status OpenOutput(Child& child, SpawnRequest& request);
  void Loop();
  void WaitForEvents();
  void TakeSignals();
  void OnSignal(int signal);
  // The next four are in supervisor_waits.cc. Handles the reports of the processes.
  void HandleRankReports();
  // Warns the user about a wait, and kills the awaited process after its limit: it hangs.
  void HearWait(const ProcessWait& wait);
  Child* Running(const NamedProcess& process) const;  // null: none
  std::string NameOf(const NamedProcess& process) const;
  void KillSilent(Child& child, const ProcessWait& wait);
  void CollectEnded();
  bool WasStopped(Child& child) const;
  // Whether a pserver ended after an error of its storage. Its successor uses the state in its
  // directory.
  bool StorageFailed(Child& child) const;
  // Removes drained pservers from `ended`: the job does not need them.
  void LetGo(std::vector<Child*>& ended);
  // Restarts processes that died and can return, and removes them from `ended`.
  void Restart(std::vector<Child*>& ended);
  bool MayRestart(const ProcessPlan& plan) const;
  // Starts a new process in place of `old`, which is destroyed.
  void StartAgain(Child& old, bool member);
  void Replace(const Child& old, bool member);
  // The next six are for elastic jobs (supervisor_elastic.cc). Removes killed ranks from the world,
  // and from `ended`, if the job can continue without them. A successor must first report that it
  // is ready.
  void LoseRanks(std::vector<Child*>& ended);
  void Admit(int rank);  // which has reported ready
  void FillWorld();      // starts all lost ranks
  void ChangeWorld();
  Status PublishWorld(std::vector<int> members);
  std::vector<int> RanksHere() const;  // members that run
  int shown_stdout() const { return options_.only_stderr ? 2 : 1; }
  // Whether some ranks have reached the end of the job: a successor would find no peers.
  bool Over() const;
  void Blame(const std::vector<Child*>& ended);
  // A trainer that lost a peer is not the cause while another trainer does not exit on request.
  void BlameSilent();
  Failure FailureOf(Child& child) const;
  void Advance();
  void StopTrainers(int signal);
  void StopPservers();
  void SignalRole(Role role, int signal);
  bool AnyRunning(Role role) const;
  // Adds an event to events.jsonl (job_record.h).
  void Note(const char* event, const std::string& process, int64_t pid, const std::string& text);
  // Warns once that the log directory is incomplete from now on; does nothing for OK.
  void TellLost(const Status& why);
  std::string LostText() const;
  void FlushOutput();
  int Conclude();

  const LaunchPlan plan_;
  const Options options_;
  Fd signals_;
  RankReportFifo rank_words_;
  PserverSockets sockets_;
  std::vector<std::unique_ptr<Child>> children_;
  Phase phase_ = Phase::kRunning;
  Time started_{}, kill_at_ = Time::max();
  int restarts_ = 0;
  int64_t world_version_ = 0;
  int stop_signal_ = 0;    // received signal; 0: none
  Time stopped_at_{};      // time of stop_signal_
  bool kill_now_ = false;  // a second signal was received
  bool told_remote_ = false;
  std::optional<Failure> failure_;
  Status lost_;  // the reason why the log directory lacks lines; OK: it is complete
};

}  // namespace tandem::deploy
