// Waits for the end of a previous instance. A killed process keeps its port and its directory locks
// until the kernel has freed its memory, which takes seconds with large tables.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"

namespace tandem {

inline constexpr Duration kPredecessorPatience = std::chrono::seconds(10);

// Calls `held` ten times a second while it returns true (another process still has the resource),
// for at most `patience`. Returns true when the resource is free, false if `patience` has passed.
// Logs one warning while it waits; it begins with `what`, such as "port 7000 is taken".
bool WaitForPreviousInstance(const std::string& what, const std::function<bool()>& held,
                             Duration patience = kPredecessorPatience);

}  // namespace tandem
