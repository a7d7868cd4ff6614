// The options of a job's plan, and reports about the plan for the user.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "kernels/exec/plan.h"
#include "kernels/ops/conv/conv_search.h"
#include "trainer/config/rank_env.h"

namespace tandem {
class DistributedStrategy;
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Returns the number of kernel threads of one rank: the job's setting, or else the rank's share of
// this host's cores.
int ThreadsOf(const JobConfig& config, const RankInfo& rank);

// Returns the options of a plan that the job determines: kernel threads, use of oneDNN and others.
// NOT_FOUND: mkldnn_enabled_op_types contains an unknown operator type; the message names this
// type.
StatusOr<exec::PlanOptions> PlanOptionsOf(const JobConfig& config, int threads);

// Returns the memory options for enable_inplace, memory_optimize and eager_delete_tensor_gb.
exec::MemoryOptions MemoryOptionsOf(const DistributedStrategy& strategy);
// Returns a report about a plan's memory, order and algorithms. The report has lines only for the
// knobs that are set.
std::string PlanReport(const DistributedStrategy& strategy, const exec::Plan& plan);

// Makes the search of cudnn_exhaustive_search and loads the results from its file. Returns nullptr
// if the job has no search. `place`: the device of the job. Adds notes for the user to `notes`, one
// per line.
std::unique_ptr<ops::ConvSearch> ConvSearchOf(const JobConfig& config, const std::string& job_dir,
                                              const Place& place, std::string* notes);

// Saves the results of `search` to its file, for this and other sessions, if the number of measured
// problems is not `*saved`. Sets `*saved` to this number. Returns notes for the user, one per line.
std::string SaveSearched(ops::ConvSearch& search, int64_t* saved);

}  // namespace tandem::trainer
