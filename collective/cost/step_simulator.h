// How long a collective would take: walks the tables of all ranks (schedule.h) in the order of
// time, under the rules of the runner (schedule_cursor.h) and the costs of a model.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collective/cost/cost_model.h"
#include "collective/schedule/algorithms.h"
#include "collective/schedule/schedule.h"
#include "common/base/status.h"

namespace tandem {

// Where the ranks are not alike.
struct RankSkew {
  // Seconds at which each rank starts; empty: all at 0.
  std::vector<double> start;
  // This rank's thread takes `slow_factor` times as long for everything. -1: none does.
  int slow_rank = -1;
  double slow_factor = 1;
};

// Most steps of tables that a walk takes on: some seconds, and 250 MB.
inline constexpr size_t kWalkStepsMax = size_t{5} << 20;

// Seconds at which each rank has its part done. `schedule(rank)` is its table, `pieces` in how many
// pieces a step's bytes are sent at least (what lands of one may go on while the rest is on its
// way), 0: as many as the walk can afford, of some packets. INTERNAL for tables that wait for each
// other.
StatusOr<std::vector<double>> Walk(const std::function<Schedule(int rank)>& schedule,
                                   const RankLayout& layout, const CostModel& model,
                                   const RankSkew& starts = {}, size_t pieces = 0);

// Of an allreduce of `count` elements; `group`: of the hierarchical ones. Where all ranks start at
// once and none is slow, each host does around the ring what the next one does, so that one of them
// is walked for all; the same of the hierarchical ones once they have many steps, to a few percent:
// what lands first differs from host to host there. Then the result has one time for each rank of a
// host. RESOURCE_EXHAUSTED beyond kWalkStepsMax.
StatusOr<std::vector<double>> SimulateAllReduce(AllReduceAlgorithm algorithm,
                                                const RankLayout& layout, int group, size_t count,
                                                size_t element_bytes, const CostModel& model,
                                                const RankSkew& starts = {});

}  // namespace tandem
