// What a rank tells the tandemrun that started it: "silent RANK MILLISECONDS", a line each, into a
// FIFO of the job's log folder (deploy/launch/silent_ranks.h reads it).
#pragma once

#include <string>

#include "common/base/clock.h"

namespace tandem {

// `rank` has been waited for so long and does not come: it may hang. Does not block; nothing
// happens where nobody listens at `fifo`.
void TellSilent(const std::string& fifo, int rank, Duration waited);

}  // namespace tandem
