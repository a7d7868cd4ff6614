// Checks whether ranks of a job can be lost and return.
#pragma once

#include "common/base/status.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Checks that the job can continue after a loss of ranks. `feature`: the setting that needs this
// continuation, for messages. UNIMPLEMENTED: part of the state would be lost because of a setting
// of the job; the message names this setting.
Status CheckReturn(const JobConfig& config, const char* feature = "tandemrun --max_restarts");

}  // namespace tandem::trainer
