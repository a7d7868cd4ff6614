// Simulates how long a collective takes. Processes the schedules of all ranks (schedule.h) in the
// order of time, under the rules of the runner (schedule_cursor.h) and the costs of a model.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/cost/cost_model.h"
#include "collective/schedule/algorithms.h"
#include "collective/schedule/schedule.h"
#include "common/base/status.h"

namespace tandem::collective {

// Differences between ranks.
struct RankSkew {
  // Seconds at which each rank starts; empty: all at 0.
  std::vector<double> start;
  // This rank's thread takes `slow_factor` times as long for everything. -1: no rank.
  int slow_rank = -1;
  double slow_factor = 1;
};

// Most schedule steps that a simulation accepts. They take some seconds and 250 MB.
inline constexpr size_t kWalkStepsMax = size_t{5} << 20;

// Returns the seconds at which each rank has completed its schedule. `schedule(rank)` is the rank's
// schedule. `pieces` is the least number of pieces in which the bytes of a schedule step are sent.
// A rank may forward a received piece while the rest is in transit. 0: as many pieces as the
// simulation can afford, each of several packets. INTERNAL: the schedules wait for each other.
StatusOr<std::vector<double>> Walk(const std::function<Schedule(int rank)>& schedule,
                                   const RankLayout& layout, const CostModel& model,
                                   const RankSkew& starts = {}, size_t pieces = 0);

// Simulates an allreduce of `count` elements; `group` is for the hierarchical algorithms.
// RESOURCE_EXHAUSTED: more than kWalkStepsMax schedule steps.
//
// If all ranks start together and none is slow, all hosts of a ring do the same in rotation. Then
// only one host is simulated, and the result has one time for each rank of a host. Hierarchical
// algorithms use this only if they have many schedule steps. The error is a few percent, because
// the order in which data land differs between their hosts.
StatusOr<std::vector<double>> SimulateAllReduce(AllReduceAlgorithm algorithm,
                                                const RankLayout& layout, int group, size_t count,
                                                size_t element_bytes, const CostModel& model,
                                                const RankSkew& starts = {});

}  // namespace tandem::collective
