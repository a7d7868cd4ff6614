// The identities in a caller's certificate.
#pragma once

#include <string>
#include <vector>

namespace grpc {
class CallbackServerContext;
}

namespace tandem {

// The URIs of the certificate that the caller of `context` showed; empty without a certificate.
std::vector<std::string> UrisOf(const grpc::CallbackServerContext& context);

}  // namespace tandem
