// Kills a pserver during the demo's job, to imitate a failure of its machine, and measures the
// effect on the job.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace tandem::deploy {

struct KillReport {
  bool killed = false;
  int server = 0;
  int64_t version_before = 0;  // number of acknowledged updates just before the kill
  int64_t version_back = 0;    // number of updates that the new server had at its start
  double back_s = 0;           // seconds from the kill until the new server replied
  std::string problem;  // why no server was killed, or why no new server started; "": no problem

  bool recovered() const { return killed && problem.empty(); }
};

// Watches a job of this host on a separate thread. The thread reads the status page of the job and
// calls its pservers. It sends SIGKILL to one pserver when the share `at_share` of the job is done.
// The job must have --status_port. tandemrun must restart the pserver (--max_restarts,
// --pserver_data_dir).
class PserverKiller {
 public:
  struct Options {
    std::string log_dir;  // log directory of tandemrun; the job may start later
    int server = 0;
    double at_share = 0.5;  // share of the job's steps after which the pserver is killed, 0 to 1
    // Receives a line of text for the user. PserverKiller calls `say` on its separate thread.
    std::function<void(const std::string&)> say;
  };
  explicit PserverKiller(Options options);
  ~PserverKiller();
  PserverKiller(const PserverKiller&) = delete;
  PserverKiller& operator=(const PserverKiller&) = delete;

  // Ends the thread and returns the report. The caller calls Finish after the job has ended.
  KillReport Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Numbers of updates in a complete sync job, from the pservers' logs.
struct UpdateCount {
  int64_t wanted = 0;   // number of steps of the job, which is the number of updates of each server
  int64_t lost = 0;     // updates that a server has not applied, summed over the servers
  int64_t doubled = 0;  // updates that a server applied twice, summed over the servers
  int64_t repeated = 0;  // replayed pushes that a server recognised and did not apply again
};
// Reads the counts from the logs of `servers` pservers of this host. DATA_LOSS: a log has no count.
StatusOr<UpdateCount> CountUpdates(const std::string& log_dir, int servers, int64_t steps);

}  // namespace tandem::deploy
