// From a job to its programs.
#pragma once

#include "common/base/status.h"
#include "kernels/exec/plan.h"
#include "kernels/graph/passes/pass.h"
#include "kernels/graph/program.h"
#include "trainer/mode.h"

namespace tandem {

class JobConfig;

struct JobPrograms {
  Program train;                   // forward, backward, and what the mode puts behind
  Program forward;                 // for evaluation; its loss and metrics are those of `train`
  std::vector<PassReport> passes;  // what the strategy's passes did to `train`
};

// `batch` samples a step on this rank, of `global_batch` over all; with batch_merge_repeats the
// programs are bound to that part of them. `job_dir`: where relative paths of the job begin.
// `observer` sees `train` at each point of its making.
StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int64_t global_batch, ModeDriver& mode,
                                    const ProgramObserver& observer = nullptr);

// How the job wants its plans: threads of the kernels, use of oneDNN. NOT_FOUND naming an operator
// type of mkldnn_enabled_op_types that there is not.
StatusOr<PlanOptions> PlanOptionsOf(const JobConfig& config, int threads);

// Writes a drawing of each point into `dir`, which is made: 00_model.dot, 01_autodiff.dot, ...
ProgramObserver DrawInto(const std::string& dir);

// Builds the programs of one local trainer and forgets them: what is wrong with the model, its
// arguments or the optimizer shows here, before anybody is started.
Status CheckPrograms(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem
