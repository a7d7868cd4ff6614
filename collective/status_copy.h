// Copies of a Status for another thread.
#pragma once

#include "common/base/status.h"

namespace tandem::collective {

// Returns an equal status that shares no memory with `status`. Copies of a Status share a reference
// count inside a library without thread sanitizer instrumentation. Use this for every status that
// crosses threads.
inline Status OwnCopy(const Status& status) {
  return status.ok() ? OkStatus() : Status(status.code(), status.message());
}

}  // namespace tandem::collective
