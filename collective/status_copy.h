// Copies a Status, so that another thread can use it.
#pragma once

#include "common/base/status.h"

namespace tandem::collective {

// Returns a Status that is equal to `status` and shares no memory with it. Copies of a Status share
// a reference count inside a library without thread sanitizer instrumentation. Use this for every
// status that crosses threads.
inline Status OwnCopy(const Status& status) {
  return status.ok() ? OkStatus() : Status(status.code(), status.message());
}

}  // namespace tandem::collective
