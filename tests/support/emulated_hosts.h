// Emulates several hosts on one machine. Each host is a network namespace. A switch in user space
// connects them, limits rates and delays packets (the kernel's netem is not available everywhere).
// Needs the right to create namespaces (usually root) and /dev/net/tun.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// Properties of the link of each host, the same in both directions.
struct HostLink {
  double bytes_per_second = 125e6;        // bytes of IP packets
  Duration delay = Duration::zero();      // one way, from host to host
  int mtu = 9000;                         // bytes of a packet
  size_t queue_bytes = size_t{64} << 20;  // bytes that may wait for one host; the switch drops more
};

// Thread-safe, except Start.
class EmulatedHosts {
 public:
  // Errors: PERMISSION_DENIED or UNAVAILABLE: a right or a feature is missing; the message says
  // which. Nothing is left over after an error.
  static StatusOr<std::unique_ptr<EmulatedHosts>> Create(int hosts, const HostLink& link);
  ~EmulatedHosts();  // stops the switch; a namespace ends with the last thread in it

  int size() const { return static_cast<int>(hosts_.size()); }
  static std::string Address(int host);  // IPv4
  // Moves the calling thread to that host, with its later threads and sockets.
  Status Enter(int host) const;
  // Starts a thread of this process that carries packets. Fork other processes before this call.
  void Start();
  // Bytes of IP packets that this host has sent to other hosts since Start.
  int64_t bytes_sent(int host) const { return hosts_[static_cast<size_t>(host)]->sent; }

 private:
  struct Host {
    Fd space;  // network namespace
    Fd wire;   // to read packets that leave the host and to write packets for it
    std::atomic<int64_t> sent{0};
  };
  class Switch;

  explicit EmulatedHosts(const HostLink& link) : link_(link) {}
  Status Add(int host);

  const HostLink link_;
  std::vector<std::unique_ptr<Host>> hosts_;
  Fd stop_;
  std::thread switch_;
};

}  // namespace tandem
