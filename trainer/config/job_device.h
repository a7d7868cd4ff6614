// Opens the device on which a rank of a job computes (the job's place).
#pragma once

#include <memory>

#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "trainer/config/rank_env.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

struct JobDevice {
  exec::Backend backend;
  std::unique_ptr<Device> device;
  // Host memory from which batches are copied to the device without an intermediate copy. If the
  // device is the CPU, batch_memory is ordinary host memory.
  std::unique_ptr<Device> batch_memory;
};

// Opens the device of this rank. If the job names only a kind of place (`cuda`), the ranks of a
// host use its devices in turn. INVALID_ARGUMENT: this machine lacks the place; a retry cannot
// help. UNIMPLEMENTED: a setting of the job is supported only on the CPU.
StatusOr<JobDevice> OpenJobDevice(const JobConfig& config, const RankInfo& rank);

}  // namespace tandem::trainer
