// Chooses and configures the training mode for a job and a rank.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "trainer/job/rank_env.h"
#include "trainer/modes/mode.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Returns the properties of the job that the modes need. `secret`: the job's secret, which its
// processes prove to each other.
StatusOr<ModeOptions> ModeOptionsOf(const JobConfig& config, const RankInfo& rank,
                                    const std::string& secret);

// Makes the mode that the job names. INVALID_ARGUMENT: `options` lack servers or a rendezvous.
StatusOr<std::unique_ptr<ModeDriver>> MakeMode(const JobConfig& config, const ModeOptions& options);

}  // namespace tandem::trainer
