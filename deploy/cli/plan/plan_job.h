// The communication of one step of a job in collective mode, for commands that predict its time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collective/host/host_communicator.h"
#include "common/base/status.h"

namespace tandem::deploy {

struct PlanBucket {
  std::string name;  // its first variable, "and N more"
  size_t count = 0, element_bytes = 4;
  double ready = 1;  // share of the step's operators before it, without the optimizer

  size_t bytes() const { return count * element_bytes; }
};

struct PlanJob {
  std::string name;
  std::vector<PlanBucket> buckets;  // gradient allreduces, in the order of the step
  collective::AllReduceRule rule;   // the job's rule to choose an algorithm
  bool by_model = false;            // use the cost model instead (allreduce_choice)
  collective::TransportKind carrier = collective::TransportKind::kAuto;

  // Whether the ranks of one host use shared memory.
  bool shares_memory() const {
    return carrier != collective::TransportKind::kTcp && rule.group <= 1;
  }
};

// The job for `workers` workers, always in mode=collective. FAILED_PRECONDITION: its steps have no
// allreduce.
StatusOr<PlanJob> PlanJobOf(const std::string& job_path, int workers);

}  // namespace tandem::deploy
