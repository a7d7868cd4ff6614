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

// Reports an error for each setting that heter workers do not support, and for a device guard other
// than cpu or gpu. Also reports an error if the batch or the workers cannot be divided among the
// heter workers. Reports a note if a guard is set although there are no heter workers.
void CheckHeterWorkers(const JobConfig& config, int workers, int heter_workers,
                       const strategy::Origins& origins, strategy::Diagnostics* diagnostics);

}  // namespace tandem::trainer
