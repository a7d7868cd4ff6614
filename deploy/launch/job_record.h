// What tandemrun leaves in a job's log folder, so that `tandem` finds the job by that folder alone:
// job.json says who the processes are, events.jsonl what became of them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

struct ProcessRecord {
  std::string role;  // pserver, trainer
  int rank = 0;
  std::string endpoint;     // "host:port"; of trainers in pserver mode nobody listens there
  std::string status_page;  // "http://127.0.0.1:8000/"; empty: none
  std::string log_file;
};

struct JobRecord {
  std::string job, mode;
  std::string pservers;  // of the whole job, other hosts too: "a:1,b:2"
  int64_t launcher_pid = 0;
  // When the launcher began, in clock ticks since the machine did: a pid comes again, both do not.
  uint64_t launcher_start = 0;
  std::string host;                  // of the launcher; empty: a version before said nothing
  std::string secret_file, tls_dir;  // absolute; tls_dir empty: no TLS
  bool insecure_allow_network = false;
  std::vector<ProcessRecord> processes;  // of this host
};

// Writes job.json for a plan that this process carries out, and begins an empty events.jsonl.
Status WriteJobRecord(const LaunchPlan& plan);
// NOT_FOUND naming what was looked for; DATA_LOSS when it is no job.json. What it names (a secret's
// file, a process, addresses) is trusted: PERMISSION_DENIED where folder or file are not this
// user's or root's, or others may write them.
StatusOr<JobRecord> ReadJobRecord(const std::string& log_dir);
// Whether the launcher that wrote it still runs, on this host.
bool LauncherRuns(const JobRecord& record);
// Sends a signal to the launcher of `record`, and to no other process that has its number now.
// FAILED_PRECONDITION when it does not run; PERMISSION_DENIED when it is another user's.
Status SignalLauncher(const JobRecord& record, int signal);
// FAILED_PRECONDITION while the job of another launcher of this host runs with this folder: its
// logs, its record and its secret would be taken from it.
Status CheckFolderFree(const std::string& log_dir);

struct JobEvent {
  std::string time;     // UTC, ISO 8601
  std::string event;    // started, ended, silent, restarted, lost, joined,
                        // added, drained, left, stopping, failed, done, cut
  std::string process;  // "pserver 0"; empty: the job
  int64_t pid = 0;      // 0: none
  std::string text;     // "exit code 0", ...
};
// Adds a line. The error says why there is none; a job goes on without, as it matters more.
Status AddEvent(const std::string& log_dir, const JobEvent& event);
StatusOr<std::vector<JobEvent>> ReadEvents(const std::string& log_dir);
// Pservers that came to a running job, or are not needed any more, as `tandem rebalance` and
// `tandem drain` noted it in events.jsonl.
struct PserverChanges {
  std::map<int, std::string> added;  // "host:port"
  std::set<int> drained;             // they serve nothing and take nothing: may be stopped
};
PserverChanges ReadPserverChanges(const std::string& log_dir);
// OK while the job of this folder may be running, as far as its last event and its launcher tell;
// else FAILED_PRECONDITION with how it ended, or that its launcher is gone without an ending.
Status CheckNotOver(const std::string& log_dir, const JobRecord& record);

// FAILED_PRECONDITION when the launcher was of this host and runs no more, and `events` have no
// ending.
Status CheckNotGone(const std::string& log_dir, const JobRecord& record,
                    const std::vector<JobEvent>& events);

// Now, in UTC: "2026-11-21T19:30:00Z".
std::string WallClockText();

}  // namespace tandem::deploy
