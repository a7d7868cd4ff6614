// Chooses the allreduce algorithm of each gradient bucket over TCP from measured costs
// (allreduce_choice ByModel).
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

// Fits a cost model of each algorithm among the ranks of `world`, and returns the fastest algorithm
// for each bucket. A collective call: all ranks of `world` must make the call. For each bucket,
// rank 0 logs the predicted time of every algorithm and the measured time of the chosen algorithm.
// `config`: the configuration of the job's communicators, without the algorithms. Returns an empty
// list if there is no bucket or if the ranks share memory. Shared memory has only one algorithm.
StatusOr<std::vector<collective::AllReduceChoice>> ChooseByModel(
    const collective::WorldConfig& world, const collective::HostCommunicatorConfig& config,
    collective::TransportKind carrier, const std::vector<ReducedBucket>& buckets);

}  // namespace tandem::trainer
