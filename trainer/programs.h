// From a job to its programs.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/program.h"
#include "trainer/mode.h"

namespace tandem {

class JobConfig;

struct JobPrograms {
  Program train;    // forward, backward, and what the mode puts behind
  Program forward;  // for evaluation; its loss and metrics are those of `train`
};

// `batch` samples a step on this rank, of `ranks`. `job_dir`: where relative paths of the job
// begin.
StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int ranks, ModeDriver& mode);

// Builds the programs of one local trainer and forgets them: what is wrong with the model, its
// arguments or the optimizer shows here, before anybody is started.
Status CheckPrograms(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem
