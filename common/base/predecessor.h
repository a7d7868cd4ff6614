// Waits until a previous instance of a program has ended. A killed process holds its port and its
// directory locks until the kernel has freed its memory. With large tables, this takes seconds.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"

namespace tandem {

inline constexpr Duration kPredecessorPatience = std::chrono::seconds(10);

// Calls `held` ten times per second until `held` returns false, but for at most `patience`. `held`
// returns whether another process holds the resource. Returns true if the resource is free, false
// if `patience` has passed. Logs one warning during the wait. The warning begins with `what`, such
// as "port 7000 is taken".
bool WaitForPreviousInstance(const std::string& what, const std::function<bool()>& held,
                             Duration patience = kPredecessorPatience);

}  // namespace tandem
