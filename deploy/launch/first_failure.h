// Finds the first failure of a job, its cause, even if several processes end at the same time.
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

  // Records `process` as the first failure. REQUIRES: !known().
  void Blame(JobProcess& process);
  // Records one of the processes `failed`, which ended between two checks and are treated as
  // simultaneous. A process that is a cause has precedence over a process that is only a
  // consequence. Does nothing if a failure is known or `failed` is empty.
  void BlameOneOf(const std::vector<JobProcess*>& failed);
  // Replaces the recorded failure if it is a trainer that lost a peer, and another trainer does not
  // exit on request. That trainer is then the first failure. Its exit was requested `grace` ago.
  void PreferUnresponsive(const JobProcesses& processes, Duration grace);

 private:
  Time started_;
  std::optional<Failure> failure_;
};

}  // namespace tandem::deploy
