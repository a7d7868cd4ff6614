#include "common/rpc/credentials/exposure.h"

#include "common/os/own_files.h"

namespace tandem::rpc {

Status CheckSendsInTheClear(const Endpoint& server, const TlsFiles& tls,
                            bool insecure_allow_network) {
  if (server.is_unix()) return CheckOwnSocket(server.path);
  if (tls.enabled() || IsLoopback(server) || insecure_allow_network) return OkStatus();
  return PermissionDenied(
      "gradients and parameters would go to %s over the network without encryption [TD6023]; hint: "
      "set tls_dir (tandem certs issue), or insecure_allow_network in a trusted network",
      ToString(server));
}

}  // namespace tandem::rpc
