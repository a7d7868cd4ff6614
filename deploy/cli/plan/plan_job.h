// The communication in one step of a job in collective mode. `tandem plan` predicts the time of a
// step from this description.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collective/host/host_communicator.h"
#include "common/base/status.h"

namespace tandem::deploy {

struct PlanBucket {
  std::string name;  // name of the bucket's first variable, then "and N more"
  size_t count = 0, element_bytes = 4;
  // Share of the step's operators that run before the bucket's allreduce can start, 0 to 1.
  // Operators of the optimizer are not counted.
  double ready = 1;

  size_t bytes() const { return count * element_bytes; }
};

struct PlanJob {
  std::string name;
  std::vector<PlanBucket> buckets;  // buckets of gradient allreduces, in the order of the step
  collective::AllReduceRule rule;   // rule by which the job chooses an algorithm
  bool by_model = false;            // true: the cost model chooses the algorithm (allreduce_choice)
  collective::TransportKind carrier = collective::TransportKind::kAuto;

  // Returns whether the ranks of one host use shared memory.
  bool shares_memory() const {
    return carrier != collective::TransportKind::kTcp && rule.group <= 1;
  }
};

// Reads the job for `workers` workers in collective mode. FAILED_PRECONDITION: the job has no
// allreduce.
StatusOr<PlanJob> PlanJobOf(const std::string& job_path, int workers);

}  // namespace tandem::deploy
