#include "common/rpc/exposure.h"

#include "common/base/own_files.h"

namespace tandem::rpc {

Status CheckSendsInTheClear(const Endpoint& server, const TlsFiles& tls,
                            bool insecure_allow_network) {
  if (server.is_unix()) return CheckOwnSocket(server.path);
  if (tls.enabled() || IsLoopback(server) || insecure_allow_network) return OkStatus();
  return PermissionDenied(
      "what goes to %s would cross the network in the clear: anybody on the way reads and changes "
      "it [TD6023]; hint: give tls_dir (tandem certs issue makes one), or in a network that you "
      "trust insecure_allow_network",
      ToString(server));
}

}  // namespace tandem::rpc
