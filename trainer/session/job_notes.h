// Notes about a job that the user gets before the job runs.
#pragma once

#include <string>

#include "trainer/config/rank_env.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Returns a note for the user if `deterministic` leaves cores idle, because it uses one kernel
// thread. The note says how cpu_num can use the idle cores. `cores`: number of cores of this host.
// "": there is no note.
std::string IdleCoresNote(const JobConfig& config, const RankInfo& rank, int cores);

// Returns a note for the user that says which samples the printed losses cover. "": the losses
// cover all samples.
std::string ShareNote(const JobConfig& config, int workers);

}  // namespace tandem::trainer
