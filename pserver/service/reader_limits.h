// Limits for callers with role reader, which are not part of the job.
#pragma once

#include <cstddef>

#include "common/base/status.h"

namespace tandem {
class PullTableRequest;
}

namespace tandem::pserver {

// Maximum bytes of a pull of a reader. About two million row ids fit.
inline constexpr size_t kReaderPullBytesMax = size_t{16} << 20;

// RESOURCE_EXHAUSTED: a pull of a reader has more than kReaderPullBytesMax bytes.
Status CheckReaderBytes(size_t bytes);
// PERMISSION_DENIED: a reader requests optimizer state, but may read only values.
// RESOURCE_EXHAUSTED: the reader requests a page that the shard would read for too long.
Status CheckReaderPage(const PullTableRequest& request);

}  // namespace tandem::pserver
