// What SIGTERM and SIGINT mean to Tandem's programs: the first asks to stop in good order, another
// one later ends at once.
#pragma once

#include "common/base/clock.h"

namespace tandem {

// Signals so close to the first one are the same request: timeout(1), for one, tells the process
// and then its group.
inline constexpr Duration kSameStopRequest = std::chrono::milliseconds(100);

}  // namespace tandem
