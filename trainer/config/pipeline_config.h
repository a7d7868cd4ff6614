// Sets the number of pipeline stages (sections) of a job, and checks the number of ranks.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
class Origins;
}  // namespace tandem::strategy

namespace tandem::trainer {

// Checks the number of ranks. INVALID_ARGUMENT: `ranks` is not a multiple of `sections`; the
// message suggests a number.
Status CheckSections(int sections, int ranks);

// Sets model.sections of a job with pipeline: to the number of stages that the program's operators
// name, or else to the job's value, or else to `ranks`. Reports an error if the program and the job
// give different numbers, or if the ranks or the batch cannot be divided equally. If `ranks` is 1,
// checks neither the ranks nor the batch. Does nothing if `diagnostics` already has an error.
// `job_dir`: base of the job's relative paths.
void SetSections(int ranks, const std::string& job_dir, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics, JobConfig* config);

}  // namespace tandem::trainer
