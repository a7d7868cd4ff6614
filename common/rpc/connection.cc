#include "common/rpc/connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::rpc {
namespace {

// The open connections of this process by descriptor. The table is global, because gRPC calls
// close() without any context.
struct Table {
  Mutex mu;
  std::unordered_map<int, std::shared_ptr<Connection>> by_fd TD_GUARDED_BY(mu);
  std::unordered_map<std::string, std::shared_ptr<Connection>> by_random TD_GUARDED_BY(mu);
  std::atomic<size_t> size{0};  // number of connections; 0: close() and recvmsg() need no lookup
};

Table& TheTable() {
  // The table is never destroyed, because close() is called until the process ends.
  static Table* const table = std::make_unique<Table>().release();
  return *table;
}

// Returns the IPv6 address in `address`. If `address` is IPv4 or an IPv4-mapped IPv6 address,
// returns null and writes the IPv4 address to `v4`.
const in6_addr* AsV6(const sockaddr* address, in_addr* v4) {
  if (address->sa_family == AF_INET) {
    *v4 = reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
    return nullptr;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (!IN6_IS_ADDR_V4MAPPED(&v6)) return &v6;
  memcpy(v4, &v6.s6_addr[12], sizeof(*v4));
  return nullptr;
}

}  // namespace

Connection::Connection(int fd, std::string peer, std::string source,
                       std::shared_ptr<StrangerBudget> budget, Time since,
                       std::function<void(Connection&)> closed)
    : peer_(std::move(peer)),
      source_(std::move(source)),
      since_(since),
      closed_(std::move(closed)),
      share_(std::move(budget)),
      fd_(fd) {}

std::shared_ptr<Connection> Connection::Make(int fd, std::string peer, std::string source,
                                             std::shared_ptr<StrangerBudget> budget, Time since,
                                             std::function<void(Connection&)> closed) {
  std::shared_ptr<Connection> made(new Connection(fd, std::move(peer), std::move(source),
                                                  std::move(budget), since, std::move(closed)));
  Table& table = TheTable();
  MutexLock lock(table.mu);
  table.by_fd[fd] = made;
  table.size = table.by_fd.size();
  return made;
}

void Connection::End() {
  MutexLock lock(mu_);
  if (ended_.exchange(true) || fd_ < 0) return;
  (void)::shutdown(fd_, SHUT_RDWR);
}

bool Connection::closed() const {
  MutexLock lock(mu_);
  return fd_ < 0;
}

void Connection::set_standing(Standing standing) {
  standing_.store(standing);
  if (standing >= Standing::kReader) share_.Leave();
}

void Connection::WatchFrames() { in_the_clear_ = true; }

bool Connection::Passes(std::string_view bytes, Time now) {
  if (watch_.Feed(bytes, standing() >= Standing::kReader ? nullptr : &share_, now)) return true;
  LOG_EVERY_T(WARNING, 1.0) << "closed the connection of " << peer_ << ": " << watch_.why();
  offended_ = true;
  End();
  return false;
}

bool Connection::Received(const msghdr& message, size_t bytes) {
  if (!in_the_clear_) return true;
  const Time now = SteadyNow();
  for (size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    const iovec& piece = message.msg_iov[i];
    const size_t size = std::min(bytes, piece.iov_len);
    if (!Passes({static_cast<const char*>(piece.iov_base), size}, now)) return false;
    bytes -= size;
  }
  return true;
}

bool Connection::LinkTls(std::string_view client_random) {
  Table& table = TheTable();
  MutexLock lock(table.mu);
  if (!table.by_random.try_emplace(std::string(client_random), shared_from_this()).second) {
    return false;
  }
  client_random_ = client_random;
  return true;
}

bool Connection::Decrypted(std::string_view bytes) { return Passes(bytes, SteadyNow()); }

std::shared_ptr<Connection> Connection::OfTls(std::string_view client_random) {
  Table& table = TheTable();
  MutexLock lock(table.mu);
  const auto it = table.by_random.find(std::string(client_random));
  return it == table.by_random.end() ? nullptr : it->second;
}

std::shared_ptr<Connection> Connection::Of(int fd) {
  Table& table = TheTable();
  if (table.size.load(std::memory_order_relaxed) == 0) return nullptr;
  MutexLock lock(table.mu);
  const auto it = table.by_fd.find(fd);
  return it == table.by_fd.end() ? nullptr : it->second;
}

void Connection::Closing(int fd) {
  Table& table = TheTable();
  if (table.size.load(std::memory_order_relaxed) == 0) return;
  std::shared_ptr<Connection> gone;
  {
    MutexLock lock(table.mu);
    const auto it = table.by_fd.find(fd);
    if (it == table.by_fd.end()) return;
    gone = std::move(it->second);
    table.by_fd.erase(it);
    table.size = table.by_fd.size();
    if (!gone->client_random_.empty()) table.by_random.erase(gone->client_random_);
  }
  {
    MutexLock lock(gone->mu_);
    gone->fd_ = -1;
    gone->ended_ = true;
  }
  gone->closed_(*gone);
}

std::string PeerName(const sockaddr* address) {
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return "unix:";
  char text[INET6_ADDRSTRLEN] = "";
  in_addr v4{};
  // The port is at the same offset in sockaddr_in and sockaddr_in6.
  const int port = ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
  if (const in6_addr* v6 = AsV6(address, &v4)) {
    inet_ntop(AF_INET6, v6, text, sizeof(text));
    const uint32_t scope = reinterpret_cast<const sockaddr_in6*>(address)->sin6_scope_id;
    const std::string zone = scope == 0 ? "" : absl::StrCat("%25", scope);
    return absl::StrCat("ipv6:%5B", text, zone, "%5D:", port);
  }
  inet_ntop(AF_INET, &v4, text, sizeof(text));
  return absl::StrCat("ipv4:", text, ":", port);
}

std::string SourceName(const sockaddr* address) {
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return "unix:";
  char text[INET6_ADDRSTRLEN] = "";
  in_addr v4{};
  if (const in6_addr* v6 = AsV6(address, &v4)) {
    in6_addr network = *v6;
    memset(&network.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &network, text, sizeof(text));
    return absl::StrCat(text, "/64");
  }
  inet_ntop(AF_INET, &v4, text, sizeof(text));
  return text;
}

}  // namespace tandem::rpc

// Replaces close(2) of libc, also for calls in libraries, and follows its contract. gRPC closes its
// sockets with close(), so this function learns when a connection ends.
extern "C" __attribute__((visibility("default"))) int close(int fd) {
  tandem::rpc::Connection::Closing(fd);
  return static_cast<int>(syscall(SYS_close, fd));
}

// Replaces recvmsg(2) of libc and follows its contract. gRPC reads its sockets with recvmsg().
extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message,
                                                                  int flags) {
  const auto got = static_cast<ssize_t>(syscall(SYS_recvmsg, fd, message, flags));
  if (got <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return got;
  const auto connection = tandem::rpc::Connection::Of(fd);
  if (connection == nullptr || connection->Received(*message, static_cast<size_t>(got))) return got;
  errno = ECONNRESET;
  return -1;
}
