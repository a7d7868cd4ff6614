// A client for HttpServer (http_server.h) that sends one GET request.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"

namespace tandem::http {

// Sends a GET request for `path`. Returns the body of the reply, at most 64 MiB. UNAVAILABLE: no
// reply within `timeout`. FAILED_PRECONDITION: the status of the reply is not 200.
StatusOr<std::string> HttpGet(const Endpoint& server, const std::string& path, Duration timeout);

}  // namespace tandem::http
