// A process that was killed has its port and the locks of its folders until the kernel took its
// memory apart, which with large tables takes seconds. So long its successor waits.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"

namespace tandem {

inline constexpr Duration kPredecessorPatience = std::chrono::seconds(10);

// Calls `held`, ten times a second, until it says that nobody has the thing any more (true), or for
// `patience` (false). While it waits, a warning says so, which begins with `what`: "port 7000 is
// taken".
bool WaitForPreviousInstance(const std::string& what, const std::function<bool()>& held,
                             Duration patience = kPredecessorPatience);

}  // namespace tandem
