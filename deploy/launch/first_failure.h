// Finds the first failure of a job, which causes the other failures. Several processes may end at
// the same time.
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/failure_report.h"
#include "deploy/launch/job_processes.h"

namespace tandem::deploy {

// The first failure of a job, if there is one. Not thread-safe.
class FirstFailure {
 public:
  // `started` is the time at which the job started.
  explicit FirstFailure(Time started) : started_(started) {}

  bool known() const { return failure_.has_value(); }
  // Returns the first failure. REQUIRES: known().
  const Failure& get() const;

  // Returns how `process`, which has ended or was killed, failed.
  Failure Describe(JobProcess& process) const;
  // Records the first failure of the job, which may have happened on another host. REQUIRES:
  // !known().
  void Adopt(const Failure& failure);
  // Records one of the processes `failed` as the first failure. These processes ended between two
  // checks, so their order is unknown. A process that failed by itself has precedence over a
  // process that failed only because of another process. Does nothing if a failure is known or
  // `failed` is empty.
  void BlameOneOf(const std::vector<JobProcess*>& failed);
  // Replaces a recorded failure that is only the loss of a peer (kExitLostPeer). The new first
  // failure is a trainer that is still running, although the launcher requested its exit `grace`
  // ago. Does nothing if there is no such trainer.
  void PreferUnresponsive(const JobProcesses& processes, Duration grace);

 private:
  Time started_;
  std::optional<Failure> failure_;
};

}  // namespace tandem::deploy
