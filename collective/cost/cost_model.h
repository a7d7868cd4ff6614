// The cost of a collective from constants of a machine: time per message (alpha), per byte (beta)
// and per byte that is added (gamma). Threads and wires have separate constants. A rank's thread
// does one thing at a time: it sends, receives or adds. A wire transfers bytes while the threads do
// something else. The model is valid for loopback, where bytes take only thread time, and for
// networks, where bytes take wire time. Source of the three terms: Hockney, "The communication
// challenge for MPP", Parallel Computing 1994, and Thakur, Rabenseifner and Gropp, "Optimization of
// collective communication operations in MPICH", 2005. Source of the separate thread time: the
// parameter o of Culler et al., "LogP", 1993.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tandem::collective {

// Times of a rank's thread, in seconds.
struct ThreadCost {
  double start = 0;     // time to start a collective
  double message = 0;   // time to begin one send or one receive of a schedule step
  double byte = 0;      // time per byte that is sent or received
  double add_byte = 0;  // time per byte that is received and added
};

// Times of a rank's thread if a buffer exceeds the caches, in seconds. For the bytes after the
// first `near_bytes`, the two times here replace `byte` and `add_byte` of ThreadCost.
struct CacheMissCost {
  size_t near_bytes = 0;  // bytes with the times of ThreadCost; 0: all bytes
  double byte = 0, add_byte = 0;
};

// Times of the connection between two ranks, in seconds. The two directions are independent.
struct WireCost {
  double latency = 0;  // time until the first byte of a message arrives
  double byte = 0;     // time per byte at an end (1 / bandwidth); messages share an end in turn
};

struct CostModel {
  ThreadCost thread;
  CacheMissCost far;
  WireCost inside;   // costs of connections inside a host; each rank has its own end
  WireCost between;  // costs of connections between hosts; the ranks of a host share one end
  int cores = 0;     // number of cores per host for the threads of its ranks; 0: one for each rank

  // Returns a model for buffers of `buffer_bytes` bytes. In the returned model, `thread` has the
  // average times over all bytes of this model, and `far` is empty.
  CostModel For(size_t buffer_bytes) const;
};

// A time as a function of the message size, linear between the measured points.
struct PiecewiseLinearCost {
  std::vector<std::pair<size_t, double>> points;  // at least two (bytes, seconds), sorted by bytes

  // Returns the time for `bytes` bytes. A segment with a negative slope counts as constant. After
  // the last point, the last segment continues. Before the first point, the time is at least
  // proportional to the bytes.
  double Seconds(size_t bytes) const;
};

// The assignment of ranks to hosts: rank r is on host r / ranks_per_host.
struct RankLayout {
  int ranks = 1;
  int ranks_per_host = 1;
};

}  // namespace tandem::collective
