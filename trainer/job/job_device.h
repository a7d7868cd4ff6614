// The device of a job's place.
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "trainer/job/rank_env.h"

namespace tandem {

class JobConfig;

struct JobDevice {
  Backend backend;
  std::unique_ptr<Device> device;
  // Host memory that the device copies from by itself; on the CPU any.
  std::unique_ptr<Device> batch_memory;
};

// Where the job names a kind of place alone (`cuda`), the ranks of a host take its devices in turn.
// INVALID_ARGUMENT when this machine lacks the place: a wrong setting, not a service that may come
// back. UNIMPLEMENTED for what only the CPU has so far.
StatusOr<JobDevice> OpenJobDevice(const JobConfig& config, const RankInfo& rank);

}  // namespace tandem
