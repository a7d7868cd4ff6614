// From a job to its programs.
#pragma once

#include "common/base/status.h"
#include "kernels/exec/plan.h"
#include "kernels/graph/passes/pass.h"
#include "kernels/graph/program.h"
#include "trainer/job/rank_env.h"
#include "trainer/modes/mode.h"

namespace tandem {

class DistributedStrategy;
class JobConfig;

struct JobPrograms {
  Program train;                   // forward, backward, and what the mode puts behind
  Program forward;                 // for evaluation; its loss and metrics are those of `train`
  std::vector<PassReport> passes;  // what the strategy's passes did to `train`
};

// `batch` samples a step on this rank, of `global_batch` over all; with batch_merge_repeats and
// micro_batch the programs are bound to that part of them. `job_dir`: where relative paths of the
// job begin. `observer` sees `train` at each point of its making.
StatusOr<JobPrograms> BuildPrograms(const JobConfig& config, const std::string& job_dir,
                                    int64_t batch, int64_t global_batch, ModeDriver& mode,
                                    const ProgramObserver& observer = nullptr);

// Threads of the kernels on one rank: the job's, else its share of this host's cores.
int ThreadsOf(const JobConfig& config, const RankInfo& rank);
// For people: what uses the cores, of `cores` on this host, that deterministic leaves idle with its
// one thread; "" where nothing does.
std::string IdleCoresNote(const JobConfig& config, const RankInfo& rank, int cores);

// For people: of which samples the losses of steps are; "" where they are of all.
std::string ShareNote(const JobConfig& config, int workers);

// How the job wants its plans: threads of the kernels, use of oneDNN. NOT_FOUND naming an operator
// type of mkldnn_enabled_op_types that there is not.
StatusOr<PlanOptions> PlanOptionsOf(const JobConfig& config, int threads);

// What enable_inplace, memory_optimize and eager_delete_tensor_gb ask for.
MemoryOptions MemoryOptionsOf(const DistributedStrategy& strategy);
// Lines about memory, order and algorithms of a plan, as far as a knob about them is set.
std::string PlanReport(const DistributedStrategy& strategy, const Plan& plan);

// The search that cudnn_exhaustive_search asks for, with what its file holds; nullptr: none.
// `place`: where the job computes. What the user should know goes into `notes`, a line each.
std::unique_ptr<ConvSearch> ConvSearchOf(const JobConfig& config, const std::string& job_dir,
                                         const Place& place, std::string* notes);

// Writes a drawing of each point into `dir`, which is made: 00_model.dot, 01_autodiff.dot, ...
// "": empty.
ProgramObserver DrawInto(const std::string& dir);

// Builds the programs of one local trainer and forgets them: what is wrong with the model, its
// arguments, the optimizer or the names of the data shows here, before a process is started.
Status CheckPrograms(const JobConfig& config, const std::string& job_dir);

}  // namespace tandem
