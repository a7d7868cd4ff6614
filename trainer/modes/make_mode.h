// Chooses the training mode of a job.
#pragma once

#include "common/base/status.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// Makes the mode that the job names, with the options of the job. The rank is that of `common`,
// which may be another than `rank`. INVALID_ARGUMENT: servers or a rendezvous
// are missing. UNIMPLEMENTED: the mode does not support a setting of the job.
StatusOr<TrainingMode> MakeMode(const JobConfig& config, const RankInfo& rank,
                                const CommonOptions& common);

}  // namespace tandem::trainer
