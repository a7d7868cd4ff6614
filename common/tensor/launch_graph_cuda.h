// Records CUDA graphs by stream capture. Only libtandem_cuda.so contains this code.
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "common/tensor/launch_graph.h"

namespace tandem {

// Calls `work` and records the work that it submits to the compute stream of `device`, a CUDA
// device. The recorded work does not run. Some CUDA work cannot be recorded. After an error of
// `work` or of CUDA, nothing has run and the stream is unchanged.
StatusOr<std::unique_ptr<LaunchGraph>> RecordCudaGraph(Device& device, const DeviceWork& work);

}  // namespace tandem
