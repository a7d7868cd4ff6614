// The reply to INFO, and the servers of rows in errors.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::pserver {

struct RespShared;
struct RespTarget;

// Returns the state of the server in the format of Redis: sections, and lines of the form
// NAME:VALUE. A name consists of lower-case letters, digits and '_'.
std::string RespInfo(const RespShared& shared);

// Adds to the error of a row that another server has: the code TD4035, a hint and, if the row has
// moved, its server. Returns any other error unchanged.
Status WithOwner(const Status& status, const RespTarget& target);

}  // namespace tandem::pserver
