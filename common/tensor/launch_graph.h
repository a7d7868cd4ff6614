// Device work that is recorded once and can then be started as a whole. An example is a CUDA graph.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/status.h"

namespace tandem {

// A recorded graph of device work. The graph does not own the memory that the work accesses. The
// device and this memory must outlive the graph, and the memory must keep its addresses. Not
// thread-safe.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Submits the graph to the device's compute stream, without waiting. The next
  // Device::Synchronize() reports an error that a kernel finds in its data.
  virtual Status Launch() = 0;
  virtual int64_t launches() const = 0;  // number of kernels, copies and fills in the graph
};

// A function that submits work to the compute stream of a device. It runs on the calling thread and
// does not wait for the work.
using DeviceWork = std::function<Status()>;

}  // namespace tandem
