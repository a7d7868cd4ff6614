#include "common/http/http_get.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <utility>

namespace tandem::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr uint64_t kReplyBytesMax = 64 << 20;
constexpr unsigned kHttp11 = 11;

}  // namespace

StatusOr<std::string> HttpGet(const Endpoint& server, const std::string& path, Duration timeout) {
  asio::io_context context;
  beast::tcp_stream stream(context);
  stream.expires_after(timeout);
  const std::string at = ToString(server);
  error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto found =
      resolver.resolve(NumericLocalhost(server.host), std::to_string(server.port), error);
  if (error)
    return Unavailable("cannot reach the status page at %s: %s [TD7010]", at, error.message());

  http::request<http::empty_body> request(http::verb::get, path, kHttp11);
  request.set(http::field::host, at);
  request.set(http::field::connection, "close");
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kReplyBytesMax);
  // Each asynchronous call starts the next one when it ends, because Asio applies deadlines only to
  // asynchronous calls.
  stream.async_connect(found, [&](error_code e, const asio::ip::tcp::endpoint&) {
    error = e;
    if (error) return;
    http::async_write(stream, request, [&](error_code written, size_t) {
      error = written;
      if (error) return;
      http::async_read(stream, buffer, parser, [&](error_code read, size_t) { error = read; });
    });
  });
  context.run();
  if (error)
    return Unavailable("cannot read the status page at %s: %s [TD7010]", at, error.message());
  if (parser.get().result() != http::status::ok) {
    return FailedPrecondition("the status page %s%s replied with HTTP status %d [TD7010]", at, path,
                              parser.get().result_int());
  }
  return std::move(parser.get().body());
}

}  // namespace tandem::http
