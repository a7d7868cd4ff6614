#include "pserver/resp/resp_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/predecessor.h"
#include "common/base/require.h"
#include "common/os/fd.h"
#include "common/rpc/admissions.h"
#include "common/rpc/listen.h"
#include "common/threads/runner.h"
#include "pserver/resp/resp_connection.h"

namespace tandem::pserver {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Maximum number of threads that answer Redis clients.
constexpr unsigned kThreadsMax = 4;
constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);
constexpr int kAcceptsOfTurn = 64;  // connections that are accepted before other work

// Returns the address of a client in the form that gRPC uses.
std::string PeerName(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& at = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
    return absl::StrFormat("ipv4:%s:%d", text, ntohs(at.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto& at = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &at.sin6_addr, text, sizeof(text));
    return absl::StrFormat("ipv6:[%s]:%d", text, ntohs(at.sin6_port));
  }
  return "unix:";
}

// A reply is sent at once, and a client that is lost without a message is noticed.
void SetTcpOptions(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

StatusOr<rpc::Listening> Listen(const RespListenOptions& options) {
  StatusOr<rpc::Listening> listening = Unavailable("the server has not tried to listen yet");
  const auto taken = [&] {
    listening = rpc::ListenOn(options.listen);
    return absl::IsAlreadyExists(listening.status());
  };
  WaitForPreviousInstance("port " + ToString(options.listen) + " is in use", taken,
                          options.patience);
  if (listening.ok()) return listening;
  return Unavailable(
      "cannot listen on %s for Redis clients: %s [TD4009]; hint: choose another --resp_listen, or "
      "end the program that uses it",
      ToString(options.listen), std::string(listening.status().message()));
}

}  // namespace

Status CheckRespListen(const RespListenOptions& options) {
  const bool local = IsLoopback(options.listen);
  if (options.tls && !local) {
    return PermissionDenied(
        "--resp_listen=%s is a network address, but Redis clients have no TLS, which this server "
        "has for its other calls [TD6001]; hint: listen on 127.0.0.1 or a Unix-domain socket, "
        "next to the programs that read",
        ToString(options.listen));
  }
  if (options.tls && !options.has_secret) {
    return PermissionDenied(
        "--resp_listen=%s: Redis clients have no certificates, and this server has no secret that "
        "they could send with AUTH [TD6001]; hint: set TANDEM_SECRET_FILE",
        ToString(options.listen));
  }
  if (local || options.insecure_allow_network) return OkStatus();
  return PermissionDenied(
      "--resp_listen=%s is a network address, but Redis clients have no TLS [TD6001]; hint: listen "
      "on 127.0.0.1, or set --insecure_allow_network in a trusted network",
      ToString(options.listen));
}

struct RespServer::Impl {
  struct Worker {
    std::shared_ptr<RespLoop> loop = std::make_shared<RespLoop>();
    asio::executor_work_guard<asio::io_context::executor_type> work =
        asio::make_work_guard(loop->context);
    std::thread thread;
  };

  Endpoint endpoint;
  std::shared_ptr<RespShared> shared;
  std::vector<std::unique_ptr<Worker>> workers;
  // The listening sockets, on the thread of the first worker.
  std::vector<std::unique_ptr<asio::posix::stream_descriptor>> listeners;
  std::vector<std::unique_ptr<asio::steady_timer>> retries;
  size_t next = 0;  // worker of the next connection

  void Await(size_t listener) {
    listeners[listener]->async_wait(asio::posix::stream_descriptor::wait_read,
                                    [this, listener](error_code error) {
                                      if (!error) AcceptSome(listener);
                                    });
  }
  void AcceptSome(size_t listener) {
    for (int i = 0; i < kAcceptsOfTurn; ++i) {
      sockaddr_storage address{};
      socklen_t length = sizeof(address);
      Fd fd(accept4(listeners[listener]->native_handle(), reinterpret_cast<sockaddr*>(&address),
                    &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.valid()) {
        Welcome(std::move(fd), address);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // Without a pause, a lack of descriptors would repeat at once.
      LOG_EVERY_T(WARNING, 1.0) << "cannot accept a Redis client: " << ErrnoText(errno);
      retries[listener]->expires_after(kAcceptRetry);
      retries[listener]->async_wait([this, listener](error_code error) {
        if (!error) Await(listener);
      });
      return;
    }
    Await(listener);
  }
  void Welcome(Fd fd, const sockaddr_storage& address) {
    TD_REQUIRE(fd.valid() && !workers.empty());
    const size_t most = shared->target.limits.connections_max;
    if (shared->connections.load() >= most) {
      const std::string error = absl::StrFormat(
          "-ERR max number of clients reached: %d (connections_max) [TD4041]\r\n", most);
      (void)send(fd.get(), error.data(), error.size(), MSG_NOSIGNAL);
      shared->refused.Add(1);
      return;
    }
    if (address.ss_family == AF_UNIX && !rpc::IsOwnPeer(fd.get())) {
      LOG_EVERY_T(WARNING, 1.0) << "a Redis client of another user was rejected";
      shared->refused.Add(1);
      return;
    }
    if (address.ss_family != AF_UNIX) SetTcpOptions(fd.get());
    auto slot = std::make_unique<RespSlot>(shared);
    const std::shared_ptr<RespLoop>& loop = workers[next++ % workers.size()]->loop;
    RespConnection::Socket socket(loop->context);
    error_code error;
    socket.assign({address.ss_family, 0}, fd.get(), error);
    if (!error) socket.non_blocking(true, error);
    if (error) return;
    (void)fd.Release();
    asio::post(loop->context, [loop = std::weak_ptr(loop), shared = shared, slot = std::move(slot),
                               socket = std::move(socket), peer = PeerName(address)]() mutable {
      if (const auto alive = loop.lock()) {
        RespConnection::Start(alive, shared, std::move(slot), std::move(socket), std::move(peer));
      }
    });
  }
};

RespServer::RespServer() : impl_(std::make_unique<Impl>()) {}

StatusOr<std::unique_ptr<RespServer>> RespServer::Start(const RespListenOptions& options,
                                                        RespTarget target, Metrics& metrics) {
  TD_RETURN_IF_ERROR(CheckRespListen(options));
  TD_ASSIGN_OR_RETURN(rpc::Listening listening, Listen(options));
  auto server = std::unique_ptr<RespServer>(new RespServer());
  Impl& impl = *server->impl_;
  impl.endpoint = options.listen;
  impl.endpoint.port = listening.port;
  // gRPC may use half of the open files.
  target.limits.connections_max = std::max<size_t>(
      1, std::min(target.limits.connections_max, rpc::LimitsForThisProcess().connections_max / 2));
  impl.shared = std::make_shared<RespShared>(std::move(target), metrics);
  const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, kThreadsMax);
  for (unsigned i = 0; i < threads; ++i) {
    impl.workers.push_back(std::make_unique<Impl::Worker>());
  }
  asio::io_context& first = impl.workers[0]->loop->context;
  for (Fd& socket : listening.sockets) {
    impl.listeners.push_back(
        std::make_unique<asio::posix::stream_descriptor>(first, socket.Release()));
    impl.retries.push_back(std::make_unique<asio::steady_timer>(first));
    impl.Await(impl.listeners.size() - 1);
  }
  for (const auto& worker : impl.workers) {
    worker->thread = std::thread([&context = worker->loop->context] {
      SetThreadName("resp");
      context.run();
    });
  }
  return server;
}

RespServer::~RespServer() {
  for (const auto& worker : impl_->workers) worker->loop->context.stop();
  for (const auto& worker : impl_->workers) {
    if (worker->thread.joinable()) worker->thread.join();
  }
  impl_->listeners.clear();
  impl_->retries.clear();
  // The shard may hold the last references to a loop, so the connections end here.
  for (const auto& worker : impl_->workers) worker->loop->connections.clear();
}

const Endpoint& RespServer::endpoint() const { return impl_->endpoint; }

}  // namespace tandem::pserver
