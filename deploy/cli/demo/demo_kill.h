// Kills a pserver during the demo's job, like a failure of its machine, and measures the effect.
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
  int64_t version_before = 0;  // reported by the server just before the kill: acknowledged updates
  int64_t version_back = 0;    // initial version of its successor
  double back_s = 0;           // from the kill until the successor replied
  std::string problem;  // the reason why no server was killed or no successor started; else ""

  bool recovered() const { return killed && problem.empty(); }
};

// Watches a job of this host on a separate thread, through its status page and calls to its
// pservers. Sends SIGKILL to one pserver once the share `at_share` of the job is done. Needs
// --status_port, and a pserver that tandemrun restarts (--max_restarts, --pserver_data_dir).
class PserverKiller {
 public:
  struct Options {
    std::string log_dir;  // tandemrun's; the job may start later
    int server = 0;
    double at_share = 0.5;                        // share of the job's steps
    std::function<void(const std::string&)> say;  // receives a line for the user; called on the
                                                  // thread
  };
  explicit PserverKiller(Options options);
  ~PserverKiller();
  PserverKiller(const PserverKiller&) = delete;
  PserverKiller& operator=(const PserverKiller&) = delete;

  // Call it once the job has ended.
  KillReport Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The updates of a whole sync job, as its pservers counted them at their end.
struct UpdateCount {
  int64_t wanted = 0;    // steps of the job, for each server
  int64_t lost = 0;      // updates that a server has not applied, summed over the servers
  int64_t doubled = 0;   // updates that a server applied once too often
  int64_t repeated = 0;  // replayed pushes that were not applied again
};
// Reads the logs of the `servers` pservers of this host. DATA_LOSS: a log has no count.
StatusOr<UpdateCount> CountUpdates(const std::string& log_dir, int servers, int64_t steps);

}  // namespace tandem::deploy
