#include "common/http/http_server.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr Duration kAcceptRetry = std::chrono::milliseconds(100);
constexpr uint32_t kHeaderBytesMax = 8192;
// maximum bytes of a request body; small, because a GET request has none
constexpr uint64_t kRequestBodyBytesMax = 1024;

// Returns the host name in the value of a Host header, without the port.
std::string_view HostName(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool bracket = host.starts_with("[") && host.ends_with("]");
  if (colon != std::string_view::npos && !bracket) host = host.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  return host;
}

class Connection;

struct Shared {
  HttpServerOptions options;
  std::vector<HttpRoute> routes;
  bool loopback = true;
  // Open connections, ordered by the time of the last request, or of the connect before the first
  // request; the oldest is first. Only the server thread uses the list.
  std::list<Connection*> connections;
};

HttpReply Refusal(int status, const std::string& why) { return {status, "text/plain", why + "\n"}; }

HttpReply Answer(const Shared& shared, const http::request<http::string_body>& request) {
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return Refusal(405, "only GET and HEAD are supported");
  }
  const std::string host(HostName({request[http::field::host].data(),  //
                                   request[http::field::host].size()}));
  if (shared.loopback && !IsLoopback({host, 0})) {
    return Refusal(421, "use localhost or 127.0.0.1 as the host name of this server");
  }
  const std::string target(request.target().data(), request.target().size());
  const std::string path = target.substr(0, target.find('?'));
  for (const HttpRoute& route : shared.routes) {
    if (route.path == path) return route.reply();
  }
  std::string paths = "there is no page at this path; the pages are:";
  for (const HttpRoute& route : shared.routes) paths += " " + route.path;
  return Refusal(404, paths);
}

// One connection of a client. It reads a request, writes the reply, and repeats both until the
// client closes the connection. Each pending operation owns a reference to the connection.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {
    place_ = shared_->connections.insert(shared_->connections.end(), this);
  }
  ~Connection() { shared_->connections.erase(place_); }

  // Closes the socket. The pending operation fails and releases its reference to the connection.
  void Close() { stream_.close(); }

  void Read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMax);
    parser_->body_limit(kRequestBodyBytesMax);
    stream_.expires_after(shared_->options.timeout);
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, size_t) {
                       if (!error) self->Write();
                     });
  }

 private:
  void Write() {
    shared_->connections.splice(shared_->connections.end(), shared_->connections, place_);
    const http::request<http::string_body>& request = parser_->get();
    HttpReply reply = Answer(*shared_, request);
    reply_ = {static_cast<http::status>(reply.status), request.version()};
    reply_.set(http::field::content_type, reply.content_type);
    reply_.set(http::field::cache_control, "no-store");
    reply_.set("Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; "
               "connect-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'");
    reply_.set("X-Content-Type-Options", "nosniff");
    reply_.keep_alive(request.keep_alive());
    const size_t bytes = reply.body.size();
    if (request.method() != http::verb::head) reply_.body() = std::move(reply.body);
    reply_.content_length(bytes);
    stream_.expires_after(shared_->options.timeout);
    http::async_write(stream_, reply_, [self = shared_from_this()](error_code error, size_t) {
      if (!error && self->reply_.keep_alive()) self->Read();
    });
  }

  beast::tcp_stream stream_;
  const std::shared_ptr<Shared> shared_;
  std::list<Connection*>::iterator place_;
  beast::flat_buffer buffer_{kHeaderBytesMax + kRequestBodyBytesMax};
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> reply_;
};

}  // namespace

struct HttpServer::Impl {
  asio::io_context context{1};
  tcp::acceptor acceptor{context};
  asio::steady_timer retry{context};
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  Endpoint endpoint;
  std::thread thread;

  void Accept() {
    acceptor.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return AcceptLater();
      auto& open = shared->connections;
      const auto most = static_cast<size_t>(shared->options.connections_max);
      // A closed connection stays in the list until its pending operation has ended. The list may
      // therefore hold up to 2 * `most` connections.
      if (open.size() >= most) open.front()->Close();
      if (open.size() < 2 * most) std::make_shared<Connection>(std::move(socket), shared)->Read();
      Accept();
    });
  }
  // Accepts the next connection after a pause. Without the pause, the retry would fail again after
  // an error such as a lack of descriptors.
  void AcceptLater() {
    retry.expires_after(kAcceptRetry);
    retry.async_wait([this](error_code error) {
      if (!error) Accept();
    });
  }
};

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                        std::vector<HttpRoute> routes) {
  if (!IsLoopback(options.listen) && !options.insecure_allow_network) {
    return PermissionDenied(
        "%s is a network address, but status pages have no TLS [TD6001]; hint: listen on "
        "127.0.0.1, or allow network addresses with --insecure_allow_network",
        ToString(options.listen));
  }
  TD_REQUIRE(options.connections_max > 0 && options.timeout > Duration::zero());
  for (const HttpRoute& route : routes) TD_REQUIRE(route.path.starts_with("/") && route.reply);
  auto server = std::unique_ptr<HttpServer>(new HttpServer());
  Impl& impl = *server->impl_;
  impl.shared->options = options;
  impl.shared->routes = std::move(routes);
  impl.shared->loopback = IsLoopback(options.listen);

  error_code error;
  const std::string host = options.listen.host == "localhost" ? "127.0.0.1" : options.listen.host;
  const auto address = asio::ip::make_address(host, error);
  if (error)
    return InvalidArgument("cannot listen on \"%s\", because it is not an IP address [TD1009]",
                           options.listen.host);
  const tcp::endpoint local(address, static_cast<uint16_t>(options.listen.port));
  impl.acceptor.open(local.protocol(), error);
  if (!error) impl.acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) impl.acceptor.bind(local, error);
  if (!error) impl.acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Unavailable(
        "cannot listen on %s: %s [TD4009]; hint: choose another port, or end the program that uses "
        "it",
        ToString(options.listen), error.message());
  }
  impl.endpoint = {options.listen.host, impl.acceptor.local_endpoint().port()};
  impl.Accept();
  impl.thread = std::thread([&impl] {
    SetThreadName("http");
    impl.context.run();
  });
  return server;
}

HttpServer::~HttpServer() {
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

const Endpoint& HttpServer::endpoint() const { return impl_->endpoint; }

}  // namespace tandem::http
