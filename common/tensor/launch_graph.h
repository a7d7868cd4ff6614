// Device work that is recorded once and then started as a whole: a CUDA graph.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/status.h"

namespace tandem {

// A recorded graph of device work. It does not own the memory that it accesses: this memory and the
// device must outlive it, at the same addresses. For one thread.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Submits the graph to the device's compute stream. Errors in the data are reported when the
  // device is synchronised.
  virtual Status Launch() = 0;
  virtual int64_t launches() const = 0;  // kernels, copies and fills in the graph
};

// Submits work to the compute stream of a device, on the calling thread, without waiting.
using DeviceWork = std::function<Status()>;

}  // namespace tandem
