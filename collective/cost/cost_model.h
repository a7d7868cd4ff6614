// What a collective costs, as figures of a machine: time per message (alpha), per byte (beta) and
// per byte added up (gamma), kept apart by who spends it. A rank's thread sends, receives and adds
// one thing at a time; a wire carries bytes while threads do something else. So loopback, where
// bytes cost threads alone, and networks, where they cost wires, are cases of one model. Source of
// the three terms: Hockney, "The communication challenge for MPP", Parallel Computing 1994, and
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// 2005; of the thread's share: Culler et al., "LogP", 1993, and its o.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tandem {

// Of a rank's thread, in seconds.
struct ThreadCost {
  double start = 0;     // of a collective, once
  double message = 0;   // to begin to send a step's half, or to receive one
  double byte = 0;      // sent, or received
  double add_byte = 0;  // received and added up
};

// Buffers that caches do not hold cost more: the bytes of a buffer beyond the first `near_bytes`.
struct CacheMissCost {
  size_t near_bytes = 0;  // 0: all cost the same
  double byte = 0, add_byte = 0;
};

// Between two ranks, in seconds. Bytes in either direction do not hinder each other.
struct WireCost {
  double latency = 0;  // until the first byte is there
  double byte = 0;     // 1 / bandwidth; of an end, which carries one thing after another
};

struct CostModel {
  ThreadCost thread;
  CacheMissCost far;
  WireCost inside;   // a host; each rank has an end of its own
  WireCost between;  // hosts; the ranks of a host share one end
  int cores = 0;     // of a host, for the threads of its ranks; 0: one for each

  // The same with far's cost spread over all bytes of a buffer of this size.
  CostModel For(size_t buffer_bytes) const;
};

// Measured at a few sizes, and lines between these.
struct PiecewiseLinearCost {
  std::vector<std::pair<size_t, double>> points;  // bytes and seconds, by bytes; two at least

  // Beyond the last point with the last line's slope; no less than at a smaller point, and before
  // the first point no less than its bytes' share of it.
  double Seconds(size_t bytes) const;
};

// Rank r is on host r / ranks_per_host.
struct RankLayout {
  int ranks = 1;
  int ranks_per_host = 1;
};

}  // namespace tandem
