// The peak performance of a GPU, and the shortest possible time of a step on it. Used to rate
// measured steps.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {

// The properties that the driver reports.
struct DeviceProperties {
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0, bus_bits = 0;
  double clock_hz = 0, memory_clock_hz = 0;
};

// Rates per second. Products are dense, with f32 sums. All except f32 products use tensor cores.
struct DevicePeak {
  double f32_flops = 0, tf32_flops = 0, half_flops = 0;
  double bytes = 0;  // memory traffic, reads and writes
};

// NOT_FOUND: the compute units of this compute capability are not known.
StatusOr<DevicePeak> PeakOf(const DeviceProperties& card);

// Cost of one run of an operator. Bytes are those read and written, assuming no cache.
struct OpCost {
  double flops = 0, bytes = 0;  // no flops: only the bytes moved count
};
OpCost CostOf(const Program& program, const Op& op);

// Returns the shortest time in seconds for one run of all operators, except communication, one
// after another. The time of an operator is the longer one of its computation and its memory
// traffic. `tf32`: products of f32 matrices use tf32. Caches can make a step faster than this.
double LeastSeconds(const Program& program, const DevicePeak& peak, bool tf32);

}  // namespace tandem
