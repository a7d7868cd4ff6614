// Opens the device of a job's place.
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "trainer/job/rank_env.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

struct JobDevice {
  Backend backend;
  std::unique_ptr<Device> device;
  // Host memory for direct copies to the device; on the CPU any host memory.
  std::unique_ptr<Device> batch_memory;
};

// If the job names only a kind of place (`cuda`), the host's ranks use its devices in turn.
// INVALID_ARGUMENT: this machine lacks the place; a retry cannot help. UNIMPLEMENTED: only the CPU
// supports the setting so far.
StatusOr<JobDevice> OpenJobDevice(const JobConfig& config, const RankInfo& rank);

}  // namespace tandem::trainer
