// A client for http_server.h: one GET request.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"

namespace tandem::http {

// Returns the body of a reply with status 200, at most 64 MiB. UNAVAILABLE: no reply in time.
// FAILED_PRECONDITION: another status.
StatusOr<std::string> HttpGet(const Endpoint& server, const std::string& path, Duration timeout);

}  // namespace tandem::http
