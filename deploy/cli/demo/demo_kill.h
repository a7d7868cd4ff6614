// What the demo does to a running job: it kills a pserver in the middle, as a machine that fails
// would, and finds out what that cost.
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
  int64_t version_before = 0;  // what the server answered just before: updates that are promised
  int64_t version_back = 0;    // what its successor began with
  double back_s = 0;           // from the kill until the successor answered
  std::string problem;         // why nobody was killed, or the successor did not come; else ""

  bool recovered() const { return killed && problem.empty(); }
};

// Watches a job of this host from a thread of its own, through its status page and its pservers'
// calls, and sends SIGKILL to one pserver when so much of the job is done. Needs --status_port, and
// a pserver that tandemrun starts again (--max_restarts, --pserver_data_dir).
class PserverKiller {
 public:
  struct Options {
    std::string log_dir;  // tandemrun's; the job may begin later
    int server = 0;
    double at_share = 0.5;                        // of the job's steps
    std::function<void(const std::string&)> say;  // a line for people; called on the thread
  };
  explicit PserverKiller(Options options);
  ~PserverKiller();
  PserverKiller(const PserverKiller&) = delete;
  PserverKiller& operator=(const PserverKiller&) = delete;

  // Once the job is over.
  KillReport Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The updates of a whole sync job, as its pservers counted them when they ended.
struct UpdateCount {
  int64_t wanted = 0;    // steps of the job, for each server
  int64_t lost = 0;      // that a server has not applied, added up over the servers
  int64_t doubled = 0;   // that a server applied once too often
  int64_t repeated = 0;  // pushes that came again and were not applied again
};
// From the logs of the `servers` pservers of this host. DATA_LOSS when one of them has not said so.
StatusOr<UpdateCount> CountUpdates(const std::string& log_dir, int servers, int64_t steps);

}  // namespace tandem::deploy
