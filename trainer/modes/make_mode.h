// Chooses the training mode of a job.
#pragma once

#include "common/base/status.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// Makes the training mode that the job names, with the options of the job. The mode uses the rank
// in `common`, which may differ from the rank in `rank`. INVALID_ARGUMENT: `rank` has no pservers
// or no rendezvous, but the mode needs them. UNIMPLEMENTED: the mode does not support a setting of
// the job.
StatusOr<TrainingMode> MakeMode(const JobConfig& config, const RankInfo& rank,
                                const CommonOptions& common);

}  // namespace tandem::trainer
