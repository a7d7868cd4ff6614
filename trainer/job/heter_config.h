// What a job with heter workers must be like.
#pragma once

namespace tandem {

class Diagnostics;
class JobConfig;
class Origins;

// An error for each setting with which `heter_workers` cannot work beside `workers` trainers, and
// for a device guard that names no device; a note where a guard is set and there are none of them.
void CheckHeterWorkers(const JobConfig& config, int workers, int heter_workers,
                       const Origins& origins, Diagnostics* diagnostics);

}  // namespace tandem
