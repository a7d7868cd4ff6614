// What a card can do at most, and how long a step would take it at the least: the yardstick of
// steps on a device.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem {

// As its driver says.
struct DeviceProperties {
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0, bus_bits = 0;
  double clock_hz = 0, memory_clock_hz = 0;
};

// Per second; products are dense ones with f32 sums, on tensor cores but those of f32.
struct DevicePeak {
  double f32_flops = 0, tf32_flops = 0, half_flops = 0;
  double bytes = 0;  // from and to its memory
};

// NOT_FOUND for a compute capability whose units are not known here.
StatusOr<DevicePeak> PeakOf(const DeviceProperties& card);

// Of one run of an operator. Bytes are those that it reads and writes, if nothing is cached.
struct OpCost {
  double flops = 0, bytes = 0;  // no flops: it is the memory moved that counts
};
OpCost CostOf(const Program& program, const Op& op);

// Seconds that one run of all operators but communication takes at the least, one behind the other,
// each by what it computes or by the memory that it moves, whichever takes longer. `tf32`: so are
// products of f32 matrices. What a cache holds makes a step faster than that.
double LeastSeconds(const Program& program, const DevicePeak& peak, bool tf32);

}  // namespace tandem
