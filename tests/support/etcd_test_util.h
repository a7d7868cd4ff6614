// An etcd server for one test, on free ports. The program comes from Debian's package etcd-server.
// Tests are skipped if the package is not installed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "common/rpc/credentials/tls_files.h"
#include "tests/support/process_test_util.h"

namespace tandem {

inline constexpr char kEtcdProgram[] = "/usr/bin/etcd";
inline constexpr char kEtcdctlProgram[] = "/usr/bin/etcdctl";  // Debian's package etcd-client

class EtcdServer {
 public:
  // The server stores its data and its log in the directory `folder`.
  // `tls`: certificate, key and authority of the server, which then requires certificates of
  // clients; empty: no TLS.
  explicit EtcdServer(const std::string& folder, const rpc::TlsFiles& tls = {})
      : folder_(folder), ports_(FreePort(2)), tls_(tls) {
    Start();
  }
  static bool Installed() { return std::filesystem::exists(kEtcdProgram); }

  std::string address() const { return "127.0.0.1:" + std::to_string(ports_); }
  // Kills the server with SIGKILL. Acknowledged writes stay on its disk.
  void Kill() { process_.reset(); }
  void Start() {
    const std::string peers = "http://127.0.0.1:" + std::to_string(ports_ + 1);
    const std::string clients = (tls_.enabled() ? "https://" : "http://") + address();
    std::vector<std::string> args = {"--data-dir=" + folder_ + "/etcd",
                                     "--listen-client-urls",
                                     clients,
                                     "--advertise-client-urls",
                                     clients,
                                     "--listen-peer-urls",
                                     peers,
                                     "--initial-advertise-peer-urls",
                                     peers,
                                     "--initial-cluster",
                                     "default=" + peers};
    if (tls_.enabled()) {
      args.insert(args.end(), {"--cert-file", tls_.cert, "--key-file", tls_.key,
                               "--trusted-ca-file", tls_.ca, "--client-cert-auth"});
    }
    process_ = std::make_unique<ChildProcess>(
        kEtcdProgram, args, std::map<std::string, std::string>{}, folder_ + "/etcd.log");
    EXPECT_TRUE(process_->WaitForText("ready to serve client requests")) << process_->Output();
  }

 private:
  const std::string folder_;
  const int ports_;
  const rpc::TlsFiles tls_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace tandem
