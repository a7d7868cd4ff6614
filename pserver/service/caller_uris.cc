#include "pserver/service/caller_uris.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/server_context.h>

namespace tandem::pserver {

std::vector<std::string> UrisOf(const grpc::CallbackServerContext& context) {
  std::vector<std::string> uris;
  const auto peer = context.auth_context();
  if (peer == nullptr) return uris;
  for (const grpc::string_ref& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

}  // namespace tandem::pserver
