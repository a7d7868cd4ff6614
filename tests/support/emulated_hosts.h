// Emulates several hosts on one machine. Each host is a network namespace. A switch in user space
// connects the hosts, limits rates and delays packets, because the kernel's netem is not available
// everywhere. The emulation needs /dev/net/tun and the right to create namespaces (usually root).
#pragma once

#include <sys/types.h>

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
  double bytes_per_second = 125e6;    // rate of the link in bytes of IP packets per second
  Duration delay = Duration::zero();  // one-way delay from host to host
  int mtu = 9000;                     // size of the largest IP packet in bytes
  // Maximum number of bytes that wait for one host. The switch drops packets beyond this limit.
  size_t queue_bytes = size_t{64} << 20;
};

// Fault of the link of a host: the direction in which the switch drops all packets. The host itself
// sees a link that is up.
enum class LinkFault { kNone, kFromHost, kToHost, kBoth };

// Hosts on this machine. All functions except Start are thread-safe.
class EmulatedHosts {
 public:
  // Creates `hosts` hosts. After an error no host is left. PERMISSION_DENIED or UNAVAILABLE: the
  // machine lacks a right or a feature; the message names it.
  static StatusOr<std::unique_ptr<EmulatedHosts>> Create(int hosts, const HostLink& link);
  ~EmulatedHosts();  // stops the switch; a namespace is removed when its last thread ends

  int size() const { return static_cast<int>(hosts_.size()); }
  static std::string Address(int host);  // Returns the IPv4 address of a host.
  // Moves the calling thread to the host. Threads and sockets that this thread creates later are
  // also on the host.
  Status Enter(int host) const;
  // Returns the file descriptor of the network namespace of a host.
  int space(int host) const { return hosts_[static_cast<size_t>(host)]->space.get(); }
  // Returns whether the main thread of process `pid` is on the host. A zombie is on no host.
  bool Has(int host, pid_t pid) const;
  // Starts the thread of the switch, which carries packets. After this call, the caller may start
  // processes with posix_spawn, but not with fork.
  void Start();
  // Sets the fault of the link of a host. The fault replaces the former fault of the link and stays
  // until the next call. A packet that is in transit at the time of the call may still arrive.
  void SetFault(int host, LinkFault fault) { hosts_[static_cast<size_t>(host)]->fault = fault; }
  // Returns the number of packets from this host that the switch has dropped because of a fault.
  int64_t packets_dropped(int host) const { return hosts_[static_cast<size_t>(host)]->dropped; }
  // Returns the size in bytes of the IP packets that this host has sent to other hosts since Start.
  // The size does not include packets that the switch has dropped because of a fault.
  int64_t bytes_sent(int host) const { return hosts_[static_cast<size_t>(host)]->sent; }

 private:
  struct Host {
    Fd space;  // the network namespace of the host
    Fd wire;   // reads packets that leave the host, and writes packets for the host
    std::atomic<int64_t> sent{0};
    std::atomic<int64_t> dropped{0};
    std::atomic<LinkFault> fault{LinkFault::kNone};
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
