// The reply to INFO.
#pragma once

#include <string>

namespace tandem::pserver {

struct RespShared;

// Returns the state of the server in the format of Redis: sections, and lines of the form
// NAME:VALUE. A name consists of lower-case letters, digits and '_'.
std::string RespInfo(const RespShared& shared);

}  // namespace tandem::pserver
