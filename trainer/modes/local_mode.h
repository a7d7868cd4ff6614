// mode=local: one process. Its program contains the optimizer.
#pragma once

#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

TrainingMode MakeLocalMode(const CommonOptions& options);

}  // namespace tandem::trainer
