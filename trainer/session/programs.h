// Builds the training program and the forward program of a job.
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
  graph::Program train;    // forward, backward and the operators of the mode
  graph::Program forward;  // program of evaluations; computes the loss and metrics of `train`
  std::vector<graph::PassReport> passes;  // changes that each pass of the strategy made in `train`
};

// Builds the programs. `batch`: samples per step on this rank; `global_batch`: samples per step on
// all ranks. With batch_merge_repeats or micro_batch, the programs are bound to a part of the
// batch. `job_dir`: base of the job's relative paths. `observer`: called with `train` after each
// stage of the build.
StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int64_t global_batch, const TrainingMode& mode,
                                    const graph::ProgramObserver& observer = nullptr);

// Adds the training to `programs->train`, a copy of the forward program with a loss: gradients, the
// passes of the strategy, and the communication and optimizer operators of `mode`. Changes
// `programs->forward` for evaluations and fills `programs->passes`. `share`: share of this rank's
// samples in all samples of a step, 0 to 1. BuildPrograms calls AddTraining for a job.
Status AddTraining(const JobConfig& config, const TrainingMode& mode, double share,
                   const graph::ProgramObserver& observer, JobPrograms* programs);

// Returns an observer that draws the program after each stage into a file of `dir`: 00_model.dot,
// 01_autodiff.dot and so on. The observer creates `dir`. Returns an empty function if `dir` is "".
graph::ProgramObserver DrawInto(const std::string& dir);

// Builds the programs of the first and the last rank of a job with `workers` trainers, and discards
// them. Thus a caller finds errors in the model, its arguments, the optimizer, the mode or the
// names of the data before it starts a process. Opens no connection. Errors: those of MakeMode and
// BuildPrograms. INVALID_ARGUMENT: the program and the data have different fields.
Status CheckPrograms(const JobConfig& config, const std::string& job_dir, int workers);

}  // namespace tandem::trainer
