// The peak performance of a GPU, and the shortest possible time of a step on the GPU. The profiler
// compares measured steps with these numbers.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"

namespace tandem::exec {

// The properties of a GPU that its driver reports.
struct DeviceProperties {
  int major = 0, minor = 0;  // compute capability, as major.minor
  int multiprocessors = 0, bus_bits = 0;
  double clock_hz = 0, memory_clock_hz = 0;
};

// Peak rates per second. Product rates are for dense matrices with f32 sums. All products use
// tensor cores, except products of f32 matrices without tf32.
struct DevicePeak {
  double f32_flops = 0, tf32_flops = 0, half_flops = 0;
  double bytes = 0;  // bytes per second that the memory can read and write
};

// Returns the peak rates of a GPU. NOT_FOUND: the compute capability of the GPU is unknown.
StatusOr<DevicePeak> PeakOf(const DeviceProperties& card);

// The cost of one run of an operator. `bytes`: bytes read and written, assuming no cache.
struct OpCost {
  double flops = 0, bytes = 0;  // flops of 0: the operator only moves memory
};
OpCost CostOf(const graph::Program& program, const ops::Op& op);

// Returns the shortest time in seconds for one run of all operators, one after another, without
// communication. The time of an operator is the longer of its computing time and its memory time.
// `tf32`: products of f32 matrices use tf32. A real step can be faster if its data is in caches.
double LeastSeconds(const graph::Program& program, const DevicePeak& peak, bool tf32);

}  // namespace tandem::exec
