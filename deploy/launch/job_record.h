// The files that tandemrun writes to the log directory of a job: job.json, a list of the processes,
// and events.jsonl, a list of the events. `tandem` finds a job by its log directory.
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
  std::string role;         // role of the process: "pserver", "trainer" or "replica"
  int rank = 0;             // as ProcessPlan::rank
  int member = -1;          // as ProcessPlan::member
  int replica = -1;         // as ProcessPlan::replica
  std::string endpoint;     // address "host:port"; a trainer in pserver mode does not listen on it
  std::string status_page;  // URL such as "http://127.0.0.1:8000/"; empty: no status page
  std::string log_file;
};

struct JobRecord {
  std::string job, mode;
  std::string pservers;  // pservers of the whole job, on all hosts, such as "a:1,b:2"
  // Addresses of replica 0 of each pserver, then of replica 1 of each pserver, and so on. A reader
  // needs one of these lists, such as "a:1,b:2".
  std::vector<std::string> replicas;
  // The same lists of addresses for Redis clients; empty: the replicas do not answer Redis clients.
  std::vector<std::string> redis;
  int64_t launcher_pid = 0;
  // The start time of the launcher, in clock ticks since boot. It identifies a launcher whose pid
  // is reused.
  uint64_t launcher_start = 0;
  std::string host;                  // host of the launcher; empty: an older version wrote the file
  std::string secret_file, tls_dir;  // absolute paths; an empty tls_dir means no TLS
  bool insecure_allow_network = false;
  std::vector<ProcessRecord> processes;  // processes on this host
};

// Writes job.json for a plan that this process executes, and creates an empty events.jsonl.
Status WriteJobRecord(const LaunchPlan& plan);
// Reads job.json. Programs trust the content of this file (path of the secret, processes,
// addresses). NOT_FOUND: there is no such file; the message names the path. DATA_LOSS: the file is
// not a job.json. PERMISSION_DENIED: another user owns the directory or the file, or may write to
// one of them.
StatusOr<JobRecord> ReadJobRecord(const std::string& log_dir);
// Returns the directory with the job.json of a job whose --log_dir is `log_dir`. A job on several
// hosts has a directory host-N for each host (deploy/launch/job_hosts.h): of those, returns the
// first one whose launcher runs on this host, or else the first one. Otherwise returns `log_dir`.
std::string JobDirOf(const std::string& log_dir);
// Returns whether the launcher in the record is still running on this host.
bool LauncherRuns(const JobRecord& record);
// Sends a signal to the launcher of `record`, never to another process with the same pid.
// FAILED_PRECONDITION: the launcher is not running. PERMISSION_DENIED: the launcher runs as another
// user.
Status SignalLauncher(const JobRecord& record, int signal);
// Checks that a new job may use the directory. FAILED_PRECONDITION: a running job of another
// launcher on this host uses the directory, and a new job would overwrite the logs, record and
// secret of that job.
Status CheckDirFree(const std::string& log_dir);

struct JobEvent {
  std::string time;  // time in UTC, ISO 8601
  // Kind of the event. The kinds are, by subject:
  // - process: started, ended, restarted, silent (tandemrun kills it because it does not reply)
  // - rank of an elastic job: joined (the rank is in the world), lost (the process of the rank has
  //   ended, and the rank is not in the world)
  // - pserver: added, drained, left (the process of a drained pserver has ended), promoted (the
  //   member has become the primary), replaced (tandemrun kills this primary for `tandem promote`),
  //   not promoted (tandemrun rejects `tandem promote`)
  // - global snapshot: snapshot, no snapshot (the snapshot failed), restored
  // - job: stopping (a signal stops it), done, failed
  std::string event;
  std::string process;  // process such as "pserver 0"; empty: the event is about the job
  int64_t pid = 0;      // pid of the process; 0: no process
  std::string text;     // details, such as "exit code 0"
};
// Appends a line to events.jsonl. The caller continues the job even if AddEvent returns an error.
Status AddEvent(const std::string& log_dir, const JobEvent& event);
StatusOr<std::vector<JobEvent>> ReadEvents(const std::string& log_dir);
// The pservers that `tandem rebalance` added and that `tandem drain` drained.
struct PserverChanges {
  std::map<int, std::string> added;  // numbers and addresses ("host:port") of added pservers
  // Drained pservers. They serve no data and accept no data, so the user may stop them.
  std::set<int> drained;
};
PserverChanges ReadPserverChanges(const std::string& log_dir);
// Checks by the last event and the launcher whether the job of the directory may be running.
// FAILED_PRECONDITION: the job has ended, or its launcher was lost before the end of the job. The
// message says which of them is the case.
Status CheckNotOver(const std::string& log_dir, const JobRecord& record);

// Checks that the launcher was not lost. FAILED_PRECONDITION: the launcher was on this host and is
// not running, and `events` contain no end of the job.
Status CheckNotGone(const std::string& log_dir, const JobRecord& record,
                    const std::vector<JobEvent>& events);

// Returns the current time in UTC, such as "2026-11-21T19:30:00Z".
std::string WallClockText();

}  // namespace tandem::deploy
