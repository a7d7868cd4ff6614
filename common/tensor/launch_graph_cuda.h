// CUDA graphs by stream capture. Part of libtandem_cuda.so only.
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "common/tensor/launch_graph.h"

namespace tandem {

// What `work` puts on the compute stream of `device`, a CUDA device, recorded and not run. An error
// of `work`, or of CUDA (what cannot be recorded): nothing was run, and the stream is as before.
StatusOr<std::unique_ptr<LaunchGraph>> RecordCudaGraph(Device& device, const DeviceWork& work);

}  // namespace tandem
