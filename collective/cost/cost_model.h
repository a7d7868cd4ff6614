// The cost of a collective from constants of a machine: time per message (alpha), per byte (beta)
// and per byte added up (gamma). Threads and wires have separate constants. A rank's thread sends,
// receives and adds one thing at a time; a wire transfers bytes while threads do something else.
// The model covers loopback, where bytes cost only thread time, and networks, where they cost wire
// time. Source of the three terms: Hockney, "The communication challenge for MPP", Parallel
// Computing 1994, and Thakur, Rabenseifner and Gropp, "Optimization of collective communication
// operations in MPICH", 2005. Source of the thread's share: the parameter o of Culler et al.,
// "LogP", 1993.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tandem::collective {

// Costs of a rank's thread, in seconds.
struct ThreadCost {
  double start = 0;     // of a collective, once
  double message = 0;   // to begin a half of a schedule step: a send or a receive
  double byte = 0;      // per byte sent or received
  double add_byte = 0;  // per byte received and added up
};

// Additional costs of buffers that do not fit the caches: for the bytes beyond the first
// `near_bytes`.
struct CacheMissCost {
  size_t near_bytes = 0;  // 0: all bytes cost the same
  double byte = 0, add_byte = 0;
};

// Costs between two ranks, in seconds. The two directions do not slow each other down.
struct WireCost {
  double latency = 0;  // until the first byte arrives
  double byte = 0;     // 1 / bandwidth of one end, which transfers one thing after another
};

struct CostModel {
  ThreadCost thread;
  CacheMissCost far;
  WireCost inside;   // inside a host; each rank has its own end
  WireCost between;  // between hosts; the ranks of a host share one end
  int cores = 0;     // per host, for the threads of its ranks; 0: one for each rank

  // The same model, with the cost of `far` spread over all bytes of a buffer of this size.
  CostModel For(size_t buffer_bytes) const;
};

// Cost as a piecewise linear function of the message size, interpolated between measured points.
struct PiecewiseLinearCost {
  std::vector<std::pair<size_t, double>> points;  // at least two (bytes, seconds), by bytes

  // Beyond the last point, the result follows the slope of the last line. It is never less than at
  // a smaller point. Before the first point it is at least proportional to the bytes.
  double Seconds(size_t bytes) const;
};

// Rank r is on host r / ranks_per_host.
struct RankLayout {
  int ranks = 1;
  int ranks_per_host = 1;
};

}  // namespace tandem::collective
