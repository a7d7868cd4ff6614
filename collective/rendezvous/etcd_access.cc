#include "collective/rendezvous/etcd_access.h"

namespace tandem::collective {

EtcdAccess EtcdAccessFrom(const std::function<std::string(const char* name)>& variable) {
  return {.tls = {.cert = variable("TANDEM_ETCD_CERT"),
                  .key = variable("TANDEM_ETCD_KEY"),
                  .ca = variable("TANDEM_ETCD_CA")},
          .user = variable("TANDEM_ETCD_USER"),
          .password_file = variable("TANDEM_ETCD_PASSWORD_FILE")};
}

}  // namespace tandem::collective
