// The wait of a trainer for initial rows that another trainer reads from files.
#pragma once

#include <cstdint>
#include <functional>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::trainer {

// Maximum time in which the leader must read files of rows or send a further row.
inline constexpr Duration kFileRowsWait = std::chrono::minutes(15);

// Calls `fetch`, which waits for the initial values for a limited time (start_timeout_ms) and then
// returns DEADLINE_EXCEEDED. Repeats this while the leader reads files and sends their rows, which
// may take longer. `rows`: returns the number of rows that the servers have. Returns the result of
// the last `fetch`, or an error of `rows`. DEADLINE_EXCEEDED: for kFileRowsWait the servers got no
// row. Blocks.
StatusOr<uint64_t> AwaitFileRows(const std::function<StatusOr<uint64_t>()>& fetch,
                                 const std::function<StatusOr<uint64_t>()>& rows,
                                 const Clock& clock);

}  // namespace tandem::trainer
