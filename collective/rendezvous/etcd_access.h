// How a rank identifies itself to etcd.
#pragma once

#include <functional>
#include <string>

#include "common/rpc/credentials/tls_files.h"

namespace tandem::collective {

struct EtcdAccess {
  // `ca`: the authority of etcd's certificate, which etcds:// needs. `cert` and `key`: a
  // certificate of this client; empty: none.
  rpc::TlsFiles tls;
  std::string user;           // name of an etcd user; empty: none
  std::string password_file;  // file with the user's password; its owner alone may write to it
};

// Makes the access from TANDEM_ETCD_CA, _CERT, _KEY, _USER and _PASSWORD_FILE. `variable` returns
// the value of an environment variable; "": it is not set.
EtcdAccess EtcdAccessFrom(const std::function<std::string(const char* name)>& variable);

}  // namespace tandem::collective
