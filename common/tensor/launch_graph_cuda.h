// CUDA graphs by stream capture. Part of libtandem_cuda.so only.
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "common/tensor/launch_graph.h"

namespace tandem {

// Records the work that `work` submits to the compute stream of `device`, a CUDA device, without
// running it. On an error of `work` or of CUDA (some work cannot be recorded), nothing has run and
// the stream is unchanged.
StatusOr<std::unique_ptr<LaunchGraph>> RecordCudaGraph(Device& device, const DeviceWork& work);

}  // namespace tandem
