// The files that tandemrun writes to a job's log directory, so that `tandem` needs only that
// directory to find the job. job.json lists the processes; events.jsonl lists the events.
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
  std::string endpoint;     // "host:port"; a trainer in pserver mode does not listen on it
  std::string status_page;  // "http://127.0.0.1:8000/"; empty: none
  std::string log_file;
};

struct JobRecord {
  std::string job, mode;
  std::string pservers;  // in the whole job, on all hosts: "a:1,b:2"
  int64_t launcher_pid = 0;
  // Start time of the launcher, in clock ticks since boot. A pid may be reused, but not with the
  // same start time.
  uint64_t launcher_start = 0;
  std::string host;                  // the launcher's host; empty: written by an older version
  std::string secret_file, tls_dir;  // absolute; tls_dir empty: no TLS
  bool insecure_allow_network = false;
  std::vector<ProcessRecord> processes;  // on this host
};

// Writes job.json for a plan that this process runs, and creates an empty events.jsonl.
Status WriteJobRecord(const LaunchPlan& plan);
// Reads job.json. Its content (a secret's file, a process, addresses) is trusted. NOT_FOUND: no
// such file; the message names the path. DATA_LOSS: not a job.json. PERMISSION_DENIED: directory or
// file belong neither to this user nor to root, or other users may write them.
StatusOr<JobRecord> ReadJobRecord(const std::string& log_dir);
// Whether the launcher in the record still runs, on this host.
bool LauncherRuns(const JobRecord& record);
// Sends a signal to the launcher of `record`, never to another process with the same pid.
// FAILED_PRECONDITION: it does not run. PERMISSION_DENIED: it belongs to another user.
Status SignalLauncher(const JobRecord& record, int signal);
// FAILED_PRECONDITION: a running job of another launcher on this host uses this directory. A new
// job would overwrite its logs, record and secret.
Status CheckDirFree(const std::string& log_dir);

struct JobEvent {
  std::string time;     // UTC, ISO 8601
  std::string event;    // started, ended, silent, restarted, lost, joined, added, drained, left,
                        // stopping, failed, done, cut
  std::string process;  // "pserver 0"; empty: the job
  int64_t pid = 0;      // 0: none
  std::string text;     // "exit code 0", ...
};
// Adds a line. An error does not end the job.
Status AddEvent(const std::string& log_dir, const JobEvent& event);
StatusOr<std::vector<JobEvent>> ReadEvents(const std::string& log_dir);
// Pservers that were added to a running job, or drained, as `tandem rebalance` and `tandem drain`
// recorded it in events.jsonl.
struct PserverChanges {
  std::map<int, std::string> added;  // "host:port"
  std::set<int> drained;  // they serve nothing and accept nothing, so they may be stopped
};
PserverChanges ReadPserverChanges(const std::string& log_dir);
// OK: the job of this directory may be running, by its last event and its launcher.
// FAILED_PRECONDITION: it has ended, or its launcher was lost without an end event; the message
// says how.
Status CheckNotOver(const std::string& log_dir, const JobRecord& record);

// FAILED_PRECONDITION: the launcher was on this host and does not run, and `events` have no end
// event.
Status CheckNotGone(const std::string& log_dir, const JobRecord& record,
                    const std::vector<JobEvent>& events);

// The current time in UTC: "2026-11-21T19:30:00Z".
std::string WallClockText();

}  // namespace tandem::deploy
