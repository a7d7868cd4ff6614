// The address of this machine that other hosts can reach.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tandem::collective {

// Returns the local address from which this machine sends packets to `host`. An empty `host` means
// any host of the network. NOT_FOUND: there is no route.
StatusOr<std::string> LocalAddressTowards(const std::string& host);

}  // namespace tandem::collective
