// What a step of a job sends in collective mode, for commands that reckon with it.
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
  double ready = 1;  // share of the step's operators, optimizer left out, that run before it

  size_t bytes() const { return count * element_bytes; }
};

struct PlanJob {
  std::string name;
  std::vector<PlanBucket> buckets;  // allreduces, in the order of the step
  AllReduceRule rule;               // by which the job chooses an algorithm
  bool by_model = false;            // instead (allreduce_choice)
  TransportKind carrier = TransportKind::kAuto;

  // Whether the ranks of one host share memory.
  bool shares_memory() const { return carrier != TransportKind::kTcp && rule.group <= 1; }
};

// The job as `workers` workers would run it, in mode=collective whatever it says.
// FAILED_PRECONDITION when its steps have no allreduce.
StatusOr<PlanJob> PlanJobOf(const std::string& job_path, int workers);

}  // namespace tandem::deploy
