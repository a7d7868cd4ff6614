// Starts and ends pservers of a running job (`tandem scale --servers=M`).
#pragma once

#include <functional>
#include <utility>

#include "common/base/status.h"
#include "deploy/launch/job_journal.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/job_scale.h"
#include "deploy/launch/pserver_sockets.h"

namespace tandem::deploy {

// The referenced objects are those of the supervisor and must outlive this object. Not thread-safe.
class PserverScaling {
 public:
  // `start` starts a process of the plan.
  PserverScaling(JobScale& scale, JobProcesses& processes, PserverSockets& sockets,
                 JobJournal& journal, std::function<Status(const ProcessPlan&)> start)
      : scale_(scale),
        processes_(processes),
        sockets_(sockets),
        journal_(journal),
        start_(std::move(start)) {}

  // Starts the missing pservers below `number`, and ends the others that have no rows. Adds the
  // event "not added" or "not ended" for a pserver that stays as it is. REQUIRES: the limits of
  // JobScale accept the number.
  void SetNumber(int number);

 private:
  // Starts a pserver. The plan of an earlier pserver of this number is used again, so the new one
  // continues with its address and data.
  Status Add(int rank);
  void End(JobProcess& process);

  JobScale& scale_;
  JobProcesses& processes_;
  PserverSockets& sockets_;
  JobJournal& journal_;
  const std::function<Status(const ProcessPlan&)> start_;
};

}  // namespace tandem::deploy
