// The identities in a caller's certificate. Includes gRPC: for .cc files only.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <vector>

namespace tandem {

// The URIs of the certificate that the caller of `context` showed; empty without a certificate.
std::vector<std::string> UrisOf(const grpc::CallbackServerContext& context);

}  // namespace tandem
