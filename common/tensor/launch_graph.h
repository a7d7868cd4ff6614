// Work on a device that is recorded once and started as a whole: a CUDA graph.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/status.h"

namespace tandem {

// Holds no memory of what it works on: that must stay where it is as long as this lives, as must
// its device. One thread.
class LaunchGraph {
 public:
  virtual ~LaunchGraph() = default;
  // Puts it on the device's compute stream. What it finds wrong in the data is known when the
  // device is synchronised.
  virtual Status Launch() = 0;
  virtual int64_t launches() const = 0;  // kernels, copies and fills that it stands for
};

// Puts work on the compute stream of a device, on the calling thread, and waits for nothing.
using DeviceWork = std::function<Status()>;

}  // namespace tandem
