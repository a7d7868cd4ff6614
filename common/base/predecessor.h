// Waits until a previous instance of a program has ended. A killed process keeps its port and its
// directory locks until the kernel has freed its memory. This takes seconds with large tables.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"

namespace tandem {

inline constexpr Duration kPredecessorPatience = std::chrono::seconds(10);

// Calls `held` ten times a second while `held` returns true, but for at most `patience`. `held`
// returns true while another process has the resource. True: the resource is free; false:
// `patience` has passed. Logs one warning while it waits, beginning with `what`, such as "port 7000
// is taken".
bool WaitForPreviousInstance(const std::string& what, const std::function<bool()>& held,
                             Duration patience = kPredecessorPatience);

}  // namespace tandem
