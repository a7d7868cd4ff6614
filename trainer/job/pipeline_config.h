// The sections of a job with pipeline, and whether its ranks fit to them.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem {

class Diagnostics;
class JobConfig;
class Origins;

// INVALID_ARGUMENT, with what would fit, when `ranks` are no multiple of the sections.
Status CheckSections(int sections, int ranks);

// Sets model.sections to what the operators of the program name, else to what the job says, else to
// `ranks`. An error when both say something else, or when ranks or batch do not divide; a job that
// is looked at as one of a single rank may have any number. `job_dir`: as for BuildPrograms.
void SetSections(int ranks, const std::string& job_dir, const Origins& origins,
                 Diagnostics* diagnostics, JobConfig* config);

}  // namespace tandem
