// A small HTTP/1.1 server for browsers and scrapers: metrics, health, the status page. It serves
// only GET and HEAD, from a table of paths.
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
  std::string path;  // exact path; the part from '?' on is ignored
  // Called on the server's thread, one call at a time. It must not block for long.
  std::function<HttpReply()> reply;
};

struct HttpServerOptions {
  Endpoint listen{"127.0.0.1", 0};
  bool insecure_allow_network = false;          // false: loopback only, because there is no TLS
  int connections_max = 64;                     // further connections are closed immediately
  Duration timeout = std::chrono::seconds(10);  // for a request, for a reply, and between them
};

// Serves the routes on its own thread. Thread-safe. On a loopback address it accepts only requests
// whose Host is a loopback name. So a web site cannot read the page through a visitor's browser
// (DNS rebinding).
class HttpServer {
 public:
  // PERMISSION_DENIED: a network address without insecure_allow_network. UNAVAILABLE: the port is
  // in use; the message names it.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                     std::vector<HttpRoute> routes);
  ~HttpServer();  // closes all connections; no route is called afterwards

  const Endpoint& endpoint() const;  // with the chosen port

 private:
  HttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::http
