// The identities in a caller's certificate.
#pragma once

#include <string>
#include <vector>

namespace grpc {
class CallbackServerContext;
}

namespace tandem::pserver {

// Returns the URIs in the certificate of the caller of `context`; empty without a certificate.
std::vector<std::string> UrisOf(const grpc::CallbackServerContext& context);

}  // namespace tandem::pserver
