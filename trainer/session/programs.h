// Builds the programs of a job.
#pragma once

#include "common/base/status.h"
#include "kernels/exec/plan.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/graph/program.h"
#include "trainer/job/rank_env.h"
#include "trainer/modes/mode.h"

namespace tandem {
class DistributedStrategy;
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
                                    int64_t batch, int64_t global_batch, ModeDriver& mode,
                                    const ProgramObserver& observer = nullptr);

// Kernel threads of one rank: the job's setting, else the rank's share of this host's cores.
int ThreadsOf(const JobConfig& config, const RankInfo& rank);
// A note for the user if `deterministic`, with its one thread, leaves cores idle: how to use them
// with cpu_num. `cores`: cores of this host. "": nothing to say.
std::string IdleCoresNote(const JobConfig& config, const RankInfo& rank, int cores);

// A note for the user: which samples the printed losses cover; "": all samples.
std::string ShareNote(const JobConfig& config, int workers);

// The plan options of the job: kernel threads, use of oneDNN. NOT_FOUND: mkldnn_enabled_op_types
// has an unknown operator type; the message names it.
StatusOr<PlanOptions> PlanOptionsOf(const JobConfig& config, int threads);

// The options from enable_inplace, memory_optimize and eager_delete_tensor_gb.
MemoryOptions MemoryOptionsOf(const DistributedStrategy& strategy);
// A report about a plan's memory, order and algorithms, with lines only for the knobs that are set.
std::string PlanReport(const DistributedStrategy& strategy, const Plan& plan);

// The search of cudnn_exhaustive_search, with the content of its file; nullptr: no search. `place`:
// the device of the job. Adds notes for the user to `notes`, one per line.
std::unique_ptr<ConvSearch> ConvSearchOf(const JobConfig& config, const std::string& job_dir,
                                         const Place& place, std::string* notes);

// An observer that writes a drawing of each stage into `dir` and creates `dir`: 00_model.dot,
// 01_autodiff.dot, ... Empty if `dir` is "".
ProgramObserver DrawInto(const std::string& dir);

// Builds and discards the programs of one local trainer. This finds errors in the model, its
// arguments, the optimizer or the names of the data before a process starts.
Status CheckPrograms(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem::trainer
