// Checks the settings of a job with heter workers.
#pragma once

namespace tandem {

class Diagnostics;
class JobConfig;
class Origins;

// Reports an error for each setting with which `heter_workers` cannot work beside `workers`
// trainers, and for a device guard that names no device. Reports a note if a guard is set and there
// are no heter workers.
void CheckHeterWorkers(const JobConfig& config, int workers, int heter_workers,
                       const Origins& origins, Diagnostics* diagnostics);

}  // namespace tandem
