// How a rank identifies itself to etcd.
#pragma once

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

}  // namespace tandem::collective
