// Starts the processes of a plan, waits for them, and leaves none behind.
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

// The life of a job:
//   running    until all trainers ended with 0, or something failed, or a signal came
//   trainers   are told to stop (SIGTERM, or the signal that came), SIGKILL after grace_s
//   pservers   are told to stop once no trainer is left, SIGKILL after grace_s
// A second SIGINT or SIGTERM kills at once. One thread; waits in poll() only.
class Supervisor {
 public:
  struct Options {
    Environment env;  // what the children inherit
    int grace_s = 10;
    int max_restarts = 0;      // processes that were killed and can return are started again
    bool quiet = false;        // do not show trainer 0's output
    bool only_stderr = false;  // show its stdout on stderr too: stdout is wanted for something else
    const char* name = "tandemrun";  // in front of messages
  };

  Supervisor(const LaunchPlan& plan, Options options);
  ~Supervisor();  // kills what still runs

  // Blocks until every process has ended. Takes SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH, and
  // for an elastic job SIGUSR1, for itself meanwhile. The value is the exit code of the job: 0,
  // that of the first failure, or 128 + the signal that ended the job. A Status when a process
  // could not be started; then none runs. REQUIRES: PrepareFiles(plan) was OK; called once, from
  // the main thread.
  StatusOr<int> Run();

 private:
  enum class Phase { kRunning, kStoppingTrainers, kStoppingPservers };
  struct Child;

  Status StartAll();
  // `member`: Child::member.
  Status Start(const ProcessPlan& plan, bool again = false, bool member = true);
  Status OpenOutput(Child& child, SpawnRequest& request);
  void Loop();
  void WaitForEvents();
  void TakeSignals();
  void OnSignal(int signal);
  // The next four are in supervisor_waits.cc. Takes up what the processes say.
  void HandleRankReports();
  // Tells people, and kills whom others have waited for in vain: it hangs.
  void HearWait(const ProcessWait& wait);
  Child* Running(const NamedProcess& process) const;  // null: none
  std::string NameOf(const NamedProcess& process) const;
  void KillSilent(Child& child, const ProcessWait& wait);
  void CollectEnded();
  bool WasStopped(Child& child) const;
  // A pserver that met an error of its store: its successor reads what the folder holds.
  bool StorageFailed(Child& child) const;
  // Takes pservers out of `ended` that were drained: nobody needs them.
  void LetGo(std::vector<Child*>& ended);
  // Starts those again that died and can return, and takes them out of `ended`.
  void Restart(std::vector<Child*>& ended);
  bool MayRestart(const ProcessPlan& plan) const;
  // A new process in the place of `old`, which goes.
  void StartAgain(Child& old, bool member);
  void Replace(const Child& old, bool member);
  // The next six are of an elastic job (supervisor_elastic.cc). Who was killed is taken out of the
  // world, and out of `ended`, where the job can do without; a successor has to say that it is
  // ready.
  void LoseRanks(std::vector<Child*>& ended);
  void Admit(int rank);  // which is ready
  void FillWorld();      // starts all that were lost
  void ChangeWorld();
  Status PublishWorld(std::vector<int> members);
  std::vector<int> RanksHere() const;  // that take part and run
  int shown_stdout() const { return options_.only_stderr ? 2 : 1; }
  // Whether ranks have come to the end of the job: a successor would meet nobody.
  bool Over() const;
  void Blame(const std::vector<Child*>& ended);
  // A trainer that lost a peer is no cause while another trainer does not end when it is told to.
  void BlameSilent();
  Failure FailureOf(Child& child) const;
  void Advance();
  void StopTrainers(int signal);
  void StopPservers();
  void SignalRole(Role role, int signal);
  bool AnyRunning(Role role) const;
  // Into events.jsonl (job_record.h).
  void Note(const char* event, const std::string& process, int64_t pid, const std::string& text);
  // Says once that the log folder lacks something from now on; nothing for OK.
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
  int stop_signal_ = 0;    // from outside; 0: none
  Time stopped_at_{};      // when stop_signal_ came
  bool kill_now_ = false;  // a second signal came
  bool told_remote_ = false;
  std::optional<Failure> failure_;
  Status lost_;  // why the log folder lacks lines; OK: it has all
};

}  // namespace tandem::deploy
