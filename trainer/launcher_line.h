// What a rank tells the tandemrun that started it: "silent RANK MILLISECONDS" or "ready RANK", a
// line each, into a FIFO of the job's log folder (deploy/launch/rank_words.h reads it).
#pragma once

#include <string>

#include "common/base/clock.h"

namespace tandem {

// `rank` has been waited for so long and does not come: it may hang. Does not block; nothing
// happens where nobody listens at `fifo`.
void TellSilent(const std::string& fifo, int rank, Duration waited);
// `rank`, which is not in the world of its elastic job, can take part from now on. The same
// otherwise.
void TellReady(const std::string& fifo, int rank);

}  // namespace tandem
