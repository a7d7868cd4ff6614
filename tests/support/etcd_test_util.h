// An etcd server for one test, on free ports. The program comes from Debian's package etcd-server.
// Tests are skipped if the package is not installed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tests/support/process_test_util.h"

namespace tandem {

inline constexpr char kEtcdProgram[] = "/usr/bin/etcd";

class EtcdServer {
 public:
  // The server stores its data and its log in the directory `folder`.
  explicit EtcdServer(const std::string& folder) : folder_(folder), ports_(FreePort(2)) { Start(); }
  static bool Installed() { return std::filesystem::exists(kEtcdProgram); }

  std::string address() const { return "127.0.0.1:" + std::to_string(ports_); }
  // Kills the server with SIGKILL. Acknowledged writes stay on its disk.
  void Kill() { process_.reset(); }
  void Start() {
    const std::string peers = "http://127.0.0.1:" + std::to_string(ports_ + 1);
    const std::string clients = "http://" + address();
    process_ = std::make_unique<ChildProcess>(
        kEtcdProgram,
        std::vector<std::string>{"--data-dir=" + folder_ + "/etcd", "--listen-client-urls", clients,
                                 "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                                 "--initial-advertise-peer-urls", peers, "--initial-cluster",
                                 "default=" + peers},
        std::map<std::string, std::string>{}, folder_ + "/etcd.log");
    EXPECT_TRUE(process_->WaitForText("ready to serve client requests")) << process_->Output();
  }

 private:
  const std::string folder_;
  const int ports_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace tandem
