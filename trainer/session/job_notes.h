// Notes for the user about a job before it runs.
#pragma once

#include <string>

#include "trainer/job/rank_env.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// A note for the user if `deterministic`, with its one thread, leaves cores idle: how to use them
// with cpu_num. `cores`: cores of this host. "": nothing to say.
std::string IdleCoresNote(const JobConfig& config, const RankInfo& rank, int cores);

// A note for the user: which samples the printed losses cover; "": all samples.
std::string ShareNote(const JobConfig& config, int workers);

}  // namespace tandem::trainer
