// Checks the settings of a job with heter workers.
#pragma once

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
class Origins;
}  // namespace tandem::strategy

namespace tandem::trainer {

// Reports an error for each setting with which `heter_workers` cannot work beside `workers`
// trainers, and for a device guard that names no device. Reports a note if a guard is set and there
// are no heter workers.
void CheckHeterWorkers(const JobConfig& config, int workers, int heter_workers,
                       const strategy::Origins& origins, strategy::Diagnostics* diagnostics);

}  // namespace tandem::trainer
