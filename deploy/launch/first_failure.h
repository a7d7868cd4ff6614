// The first failure of a job: which process is the cause, when several end at the same time.
#pragma once

#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/failure_report.h"
#include "deploy/launch/job_processes.h"

namespace tandem::deploy {

// Not thread-safe.
class FirstFailure {
 public:
  // `started`: start of the job.
  explicit FirstFailure(Time started) : started_(started) {}

  bool known() const { return failure_.has_value(); }
  // REQUIRES: known().
  const Failure& get() const;

  // Blames `process`. REQUIRES: !known().
  void Blame(JobProcess& process);
  // Blames one of `failed`, which ended between two checks and so count as simultaneous. A cause
  // takes precedence over its consequences. Does nothing if a failure is known or `failed` is
  // empty.
  void BlameOneOf(const std::vector<JobProcess*>& failed);
  // A trainer that lost a peer is not the cause while another trainer does not exit on request.
  // Blames that one instead; it was asked `grace` ago.
  void PreferUnresponsive(const JobProcesses& processes, Duration grace);

 private:
  Time started_;
  std::optional<Failure> failure_;
};

}  // namespace tandem::deploy
