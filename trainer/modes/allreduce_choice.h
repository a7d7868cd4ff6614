// allreduce_choice ByModel: which algorithm reduces each bucket of a job, over TCP.
#pragma once

#include <string>
#include <vector>

#include "collective/host/host_communicator.h"
#include "collective/rendezvous/rendezvous.h"
#include "collective/schedule/allreduce_algorithm.h"

namespace tandem::trainer {

struct ReducedBucket {
  std::string name;
  size_t bytes = 0;
};

// Fits what each algorithm costs among the ranks of `world`, all of which call it, and takes the
// fastest for each bucket; rank 0 logs for each bucket what was predicted of every algorithm, and
// what the chosen one took when it was measured. Nothing, which it logs, where `carrier` is shared
// memory, that needs none. `config`: otherwise as the job's communicators have it.
StatusOr<std::vector<collective::AllReduceChoice>> ChooseByModel(
    const collective::WorldConfig& world, const collective::HostCommunicatorConfig& config,
    collective::TransportKind carrier, const std::vector<ReducedBucket>& buckets);

}  // namespace tandem::trainer
