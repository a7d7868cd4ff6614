// The other side of http_server.h: one GET.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/endpoint.h"

namespace tandem {

// The body of an answer with status 200, at most 64 MiB. UNAVAILABLE when nobody answers in time,
// FAILED_PRECONDITION for another status.
StatusOr<std::string> HttpGet(const Endpoint& server, const std::string& path, Duration timeout);

}  // namespace tandem
