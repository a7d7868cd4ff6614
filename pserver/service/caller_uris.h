// Reads the identities from the certificate of a caller.
#pragma once

#include <string>
#include <vector>

namespace grpc {
class CallbackServerContext;
}

namespace tandem::pserver {

// Returns the URIs in the certificate of the caller of `context`; empty: the caller has no
// certificate.
std::vector<std::string> UrisOf(const grpc::CallbackServerContext& context);

}  // namespace tandem::pserver
