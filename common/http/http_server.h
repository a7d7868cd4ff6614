// A small HTTP/1.1 server for browsers and for tools that read metrics, health or the status page.
// It serves only GET and HEAD requests for the paths of a table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"

namespace tandem::http {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpRoute {
  // Path that a request must have; the part of the request from '?' on is ignored.
  std::string path;
  // Makes a reply. The server's thread calls it, one call at a time, and it must not block.
  std::function<HttpReply()> reply;
};

struct HttpServerOptions {
  Endpoint listen{"127.0.0.1", 0};
  // false: only loopback addresses are allowed, because there is no TLS.
  bool insecure_allow_network = false;
  // Maximum number of open connections; the server closes further ones immediately.
  int connections_max = 64;
  // Time limit for each request, each reply, and the pause between two requests.
  Duration timeout = std::chrono::seconds(10);
};

// Serves the routes on a separate thread. Thread-safe. On a loopback address it accepts only
// requests whose Host is a loopback name. So a web site cannot read the page through a visitor's
// browser (DNS rebinding).
class HttpServer {
 public:
  // Starts the server. PERMISSION_DENIED: the address is a network address and
  // insecure_allow_network is false. UNAVAILABLE: the port is in use; the message names the port.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                     std::vector<HttpRoute> routes);
  ~HttpServer();  // closes all connections; afterwards no route is called

  const Endpoint& endpoint() const;  // address of the server, with the port that was chosen

 private:
  HttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::http
