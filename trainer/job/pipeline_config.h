// Sets the pipeline stages (sections) of a job, and checks that its ranks fit them.
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

// INVALID_ARGUMENT: `ranks` is not a multiple of the sections; the message suggests a number.
Status CheckSections(int sections, int ranks);

// Sets model.sections to the stages that the program's operators name; else to the job's value;
// else to `ranks`. Reports an error if program and job differ, or if ranks or batch cannot be
// divided. A job that is checked as a job of one rank may have any number. `job_dir`: as for
// BuildPrograms.
void SetSections(int ranks, const std::string& job_dir, const strategy::Origins& origins,
                 strategy::Diagnostics* diagnostics, JobConfig* config);

}  // namespace tandem::trainer
