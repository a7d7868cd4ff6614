// Builds the programs of a job.
#pragma once

#include "common/base/status.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/graph/program.h"
#include "trainer/modes/mode.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

struct JobPrograms {
  Program train;                   // forward, backward and the operators of the mode
  Program forward;                 // for evaluation; has the same loss and metrics as `train`
  std::vector<PassReport> passes;  // changes of `train` by the strategy's passes
};

// `batch`: samples per step on this rank; `global_batch`: over all ranks. With batch_merge_repeats
// and micro_batch the programs are bound to the corresponding part. `job_dir`: base of the job's
// relative paths. `observer` sees `train` after each stage of the build.
StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int64_t global_batch, const TrainingMode& mode,
                                    const ProgramObserver& observer = nullptr);

// An observer that writes a drawing of each stage into `dir` and creates `dir`: 00_model.dot,
// 01_autodiff.dot, ... Empty if `dir` is "".
ProgramObserver DrawInto(const std::string& dir);

// Builds and discards the programs of one local trainer. This finds errors in the model, its
// arguments, the optimizer or the names of the data before a process starts.
Status CheckPrograms(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem::trainer
