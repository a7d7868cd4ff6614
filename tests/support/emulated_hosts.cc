#include "tests/support/emulated_hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <span>

#include "common/base/check.h"
#include "common/threads/runner.h"

namespace tandem {
namespace {

// Network address 10.77.0.0. Host h has the address 10.77.0.0 + h + 1.
constexpr uint32_t kNetwork = 0x0a4d0000;
constexpr uint32_t kMask = 0xffffff00;
constexpr int kHostsMax = 64, kQueuedPackets = 10'000;

sockaddr AddressOf(uint32_t address) {
  sockaddr_in in = {};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(address);
  sockaddr any;
  std::memcpy(&any, &in, sizeof(any));
  return any;
}

Status Failed(const char* what) {
  const bool rights = errno == EPERM || errno == EACCES;
  const std::string text = absl::StrFormat("%s: %s", what, ErrnoText(errno));
  return rights ? PermissionDenied("%s", text) : Unavailable("%s", text);
}

// Configures one interface of the network namespace of the calling thread.
class Interface {
 public:
  explicit Interface(const char* name) : socket_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::strncpy(request_.ifr_name, name, sizeof(request_.ifr_name) - 1);
  }
  Status SetAddress(uint32_t address, uint32_t mask) {
    request_.ifr_addr = AddressOf(address);
    TD_RETURN_IF_ERROR(Do(SIOCSIFADDR, "address"));
    request_.ifr_netmask = AddressOf(mask);
    return Do(SIOCSIFNETMASK, "network mask");
  }
  Status SetMtu(int bytes) {
    request_.ifr_mtu = bytes;
    return Do(SIOCSIFMTU, "MTU");
  }
  // Sets the number of packets that may wait until the switch reads them. The kernel drops further
  // packets.
  Status SetQueue(int packets) {
    request_.ifr_qlen = packets;
    return Do(SIOCSIFTXQLEN, "queue");
  }
  Status Up() {
    request_.ifr_flags = IFF_UP | IFF_RUNNING;
    return Do(SIOCSIFFLAGS, "up");
  }

 private:
  Status Do(unsigned long what, const char* name) {
    if (::ioctl(socket_.get(), what, &request_) == 0) return OkStatus();
    return Failed(absl::StrFormat("%s of %s", name, request_.ifr_name).c_str());
  }

  Fd socket_;
  ifreq request_ = {};
};

// Creates the interface of a host in the network namespace of the calling thread.
StatusOr<Fd> MakeWire(int host, const HostLink& link) {
  Fd wire(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!wire.valid()) return Failed("/dev/net/tun");
  ifreq request = {};
  std::strncpy(request.ifr_name, "wire", sizeof(request.ifr_name) - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (::ioctl(wire.get(), TUNSETIFF, &request) != 0) return Failed("a TUN device");
  TD_RETURN_IF_ERROR(Interface("lo").Up());
  Interface own("wire");
  TD_RETURN_IF_ERROR(own.SetAddress(kNetwork + static_cast<uint32_t>(host) + 1, kMask));
  TD_RETURN_IF_ERROR(own.SetMtu(link.mtu));
  TD_RETURN_IF_ERROR(own.SetQueue(kQueuedPackets));
  TD_RETURN_IF_ERROR(own.Up());
  // By default, TCP resets its congestion window if a connection is idle for some round trips. The
  // emulation disables this reset if the kernel allows it, because the reset is no property of a
  // link.
  std::ofstream("/proc/sys/net/ipv4/tcp_slow_start_after_idle") << 0;
  return wire;
}

}  // namespace

// The switch: one thread that carries packets between the hosts.
class EmulatedHosts::Switch {
 public:
  explicit Switch(EmulatedHosts& net) : net_(net), ports_(net.hosts_.size()), packet_(65536) {}

  void Run() {
    SetThreadName("test-switch");
    // Requests real-time priority, because a delay of this thread delays packets. Without the right
    // to this priority, the thread continues, and some packets are delayed too long.
    sched_param first = {};
    first.sched_priority = 1;
    ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &first);
    std::vector<pollfd> fds;
    for (const auto& host : net_.hosts_) fds.push_back({host->wire.get(), POLLIN, 0});
    fds.push_back({net_.stop_.get(), POLLIN, 0});
    while (true) {
      const Duration wait = Deliver();
      const timespec left = {wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
      const int ready = ::ppoll(fds.data(), fds.size(), &left, nullptr);
      CHECK(ready >= 0 || errno == EINTR) << ErrnoText(errno);
      if (fds.back().revents != 0) return;
      for (size_t h = 0; ready > 0 && h < ports_.size(); ++h) {
        if (fds[h].revents != 0) Take(h);
      }
    }
  }

 private:
  struct Packet {
    Time due;
    std::vector<std::byte> bytes;
  };
  // State of one host: the time at which each direction of its link is free again, and the packets
  // in transit to the host.
  struct Port {
    Time out_free = Time::min(), in_free = Time::min();
    std::deque<Packet> coming;  // packets in transit, in the order of their arrival times
    size_t coming_bytes = 0;
  };

  // Receives all packets that host `from` has sent.
  void Take(size_t from) {
    while (true) {
      const ssize_t n = ::read(net_.hosts_[from]->wire.get(), packet_.data(), packet_.size());
      if (n <= 0) return;
      iphdr head;
      if (static_cast<size_t>(n) < sizeof(head)) continue;
      std::memcpy(&head, packet_.data(), sizeof(head));
      const uint32_t to = ntohl(head.daddr) - kNetwork - 1;
      if (head.version != 4 || to >= ports_.size() || to == from) continue;
      if (IsCut(from, to)) {
        ++net_.hosts_[from]->dropped;
        continue;
      }
      Send(from, to, {packet_.data(), static_cast<size_t>(n)});
    }
  }

  // Returns whether a fault of a link drops packets between two hosts.
  bool IsCut(size_t from, size_t to) const {
    const LinkFault source = net_.hosts_[from]->fault, target = net_.hosts_[to]->fault;
    return source == LinkFault::kFromHost || source == LinkFault::kBoth ||
           target == LinkFault::kToHost || target == LinkFault::kBoth;
  }

  void Send(size_t from, size_t to, std::span<const std::byte> bytes) {
    Port &source = ports_[from], &target = ports_[to];
    if (target.coming_bytes + bytes.size() > net_.link_.queue_bytes) return;
    const auto takes = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
        static_cast<double>(bytes.size()) / net_.link_.bytes_per_second));
    source.out_free = std::max(SteadyNow(), source.out_free) + takes;
    target.in_free = std::max(source.out_free + net_.link_.delay, target.in_free + takes);
    target.coming.push_back({target.in_free, {bytes.begin(), bytes.end()}});
    target.coming_bytes += bytes.size();
    net_.hosts_[from]->sent += static_cast<int64_t>(bytes.size());
  }

  // Delivers the packets whose arrival time has come. Returns the time until the next arrival.
  Duration Deliver() {
    const Time now = SteadyNow();
    Duration wait = std::chrono::hours(1);
    for (size_t h = 0; h < ports_.size(); ++h) {
      Port& port = ports_[h];
      while (!port.coming.empty() && port.coming.front().due <= now) {
        const auto& bytes = port.coming.front().bytes;
        // If the host's interface does not accept the packet, the packet is lost.
        [[maybe_unused]] const ssize_t n =
            ::write(net_.hosts_[h]->wire.get(), bytes.data(), bytes.size());
        port.coming_bytes -= bytes.size();
        port.coming.pop_front();
      }
      if (!port.coming.empty()) wait = std::min<Duration>(wait, port.coming.front().due - now);
    }
    return wait;
  }

  EmulatedHosts& net_;
  std::vector<Port> ports_;
  std::vector<std::byte> packet_;
};

std::string EmulatedHosts::Address(int host) { return absl::StrFormat("10.77.0.%d", host + 1); }

StatusOr<std::unique_ptr<EmulatedHosts>> EmulatedHosts::Create(int hosts, const HostLink& link) {
  CHECK(hosts >= 1 && hosts <= kHostsMax);
  std::unique_ptr<EmulatedHosts> net(new EmulatedHosts(link));
  net->stop_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  for (int h = 0; h < hosts; ++h) TD_RETURN_IF_ERROR(net->Add(h));
  return net;
}

Status EmulatedHosts::Add(int host) {
  auto added = std::make_unique<Host>();
  Status status;
  // Creates the namespace on a temporary thread, because a thread that has moved to a namespace
  // stays there.
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) != 0) {
      status = Failed("a network namespace");
      return;
    }
    added->space = Fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    StatusOr<Fd> wire = MakeWire(host, link_);
    status = wire.status();
    if (wire.ok()) added->wire = *std::move(wire);
  }).join();
  TD_RETURN_IF_ERROR(status);
  hosts_.push_back(std::move(added));
  return OkStatus();
}

Status EmulatedHosts::Enter(int host) const {
  const Fd& space = hosts_[static_cast<size_t>(host)]->space;
  return ::setns(space.get(), CLONE_NEWNET) == 0 ? OkStatus() : Failed("setns");
}

bool EmulatedHosts::Has(int host, pid_t pid) const {
  struct stat own, other;
  const Fd& space = hosts_[static_cast<size_t>(host)]->space;
  CHECK(::fstat(space.get(), &own) == 0) << ErrnoText(errno);
  const std::string path = absl::StrFormat("/proc/%d/ns/net", pid);
  return ::stat(path.c_str(), &other) == 0 && own.st_ino == other.st_ino;
}

void EmulatedHosts::Start() {
  switch_ = std::thread([this] { Switch(*this).Run(); });
}

EmulatedHosts::~EmulatedHosts() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(stop_.get(), &one, sizeof(one));
  if (switch_.joinable()) switch_.join();
}

}  // namespace tandem
