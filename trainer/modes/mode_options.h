// From a job and a rank's place in it to the mode in which it trains.
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

// What the modes need of the job. `secret`: of the job, which its processes show one another.
StatusOr<ModeOptions> ModeOptionsOf(const JobConfig& config, const RankInfo& rank,
                                    const std::string& secret);

// The mode named by the job. INVALID_ARGUMENT when `options` lack what it needs: servers, a
// rendezvous.
StatusOr<std::unique_ptr<ModeDriver>> MakeMode(const JobConfig& config, const ModeOptions& options);

}  // namespace tandem::trainer
