// Several hosts on one machine: a network namespace each, joined by a switch in user space that
// limits rates and delays packets (the kernel's netem is not everywhere). Needs the right to make
// namespaces (root, mostly) and /dev/net/tun.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

// Of each host's link, in either direction.
struct HostLink {
  double bytes_per_second = 125e6;        // of IP packets
  Duration delay = Duration::zero();      // from host to host, one way
  int mtu = 9000;                         // bytes of a packet
  size_t queue_bytes = size_t{64} << 20;  // that wait for one host; what is more is dropped
};

// Thread-safe but for Start.
class EmulatedHosts {
 public:
  // PERMISSION_DENIED or UNAVAILABLE saying what is not allowed or not there; nothing is left then.
  static StatusOr<std::unique_ptr<EmulatedHosts>> Create(int hosts, const HostLink& link);
  ~EmulatedHosts();  // stops the switch; namespaces go with the last thread that is in them

  int size() const { return static_cast<int>(hosts_.size()); }
  static std::string Address(int host);  // of IPv4
  // From now on the calling thread, its new threads and its new sockets are on that host.
  Status Enter(int host) const;
  // Begins to carry packets, on a thread of this process: fork before.
  void Start();
  // Bytes of IP packets that this host has sent to others since Start.
  int64_t bytes_sent(int host) const { return hosts_[static_cast<size_t>(host)]->sent; }

 private:
  struct Host {
    Fd space;  // the namespace
    Fd wire;   // packets that leave it are read here, those for it written
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
