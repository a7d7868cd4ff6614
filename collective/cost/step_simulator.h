// Simulates how long a collective takes. The simulation processes the schedules of all ranks
// (schedule.h) in order of time. It uses the runner's rules (schedule_cursor.h) and a cost model.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/cost/cost_model.h"
#include "collective/schedule/algorithms.h"
#include "collective/schedule/schedule.h"
#include "common/base/status.h"

namespace tandem::collective {

// Differences between the ranks of a simulation.
struct RankSkew {
  // Start time of each rank, in seconds; empty: all ranks start at 0.
  std::vector<double> start;
  // The thread of rank `slow_rank` takes `slow_factor` times as long for each action. -1: no rank
  // is slow.
  int slow_rank = -1;
  double slow_factor = 1;
};

// Maximum number of schedule steps in a simulation. A simulation of this size needs some seconds
// and 250 MB.
inline constexpr size_t kWalkStepsMax = size_t{5} << 20;

// Returns the times in seconds at which each rank has completed its schedule. `schedule(rank)`
// returns the schedule of a rank. A rank sends the bytes of a schedule step in about `pieces`
// pieces, or more if a piece would exceed 256 KiB. A rank may forward a received piece while
// further pieces are in transit. If `pieces` is 0, the simulation chooses the number: up to 16
// pieces of at least 4 KiB, fewer if there are many schedule steps. INTERNAL: the schedules
// deadlock. RESOURCE_EXHAUSTED: there are more than kWalkStepsMax schedule steps.
StatusOr<std::vector<double>> Walk(const std::function<Schedule(int rank)>& schedule,
                                   const RankLayout& layout, const CostModel& model,
                                   const RankSkew& starts = {}, size_t pieces = 0);

// Simulates an allreduce of `count` elements and returns the time in seconds of each rank. `group`
// is the group size of hierarchical algorithms. RESOURCE_EXHAUSTED: there are more than
// kWalkStepsMax schedule steps.
//
// If all ranks start together and no rank is slow, every host of a ring does the same work. The
// function then simulates only one host, and the result has one time for each rank of a host. The
// function also does so for hierarchical algorithms if each group is a host and there are many
// schedule steps. The error is then a few percent, because the order in which data arrive differs
// between hosts.
StatusOr<std::vector<double>> SimulateAllReduce(AllReduceAlgorithm algorithm,
                                                const RankLayout& layout, int group, size_t count,
                                                size_t element_bytes, const CostModel& model,
                                                const RankSkew& starts = {});

}  // namespace tandem::collective
