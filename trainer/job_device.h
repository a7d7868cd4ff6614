// The device of a job's place.
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "kernels/exec/backend.h"

namespace tandem {

class JobConfig;

struct JobDevice {
  Backend backend;
  std::unique_ptr<Device> device;
};

// INVALID_ARGUMENT when this machine lacks the place: a wrong setting, not a service that may come
// back. UNIMPLEMENTED for what only the CPU has so far. `communicates`: the mode's operators do.
StatusOr<JobDevice> OpenJobDevice(const JobConfig& config, bool communicates);

}  // namespace tandem
