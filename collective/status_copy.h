// Copies a Status, so that another thread can use it.
#pragma once

#include "common/base/status.h"

namespace tandem::collective {

// Returns a Status that is equal to `status` and shares no memory with it. Use this function for
// every status that crosses threads. Reason: plain copies of a Status share a reference count
// inside a library that has no thread-sanitizer instrumentation.
inline Status OwnCopy(const Status& status) {
  return status.ok() ? OkStatus() : Status(status.code(), status.message());
}

}  // namespace tandem::collective
