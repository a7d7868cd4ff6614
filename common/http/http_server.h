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
  // Path of the requests for this route. The part of a request's path from '?' on is ignored.
  std::string path;
  // Makes a reply. The server's thread makes one call at a time. The function must not block.
  std::function<HttpReply()> reply;
};

struct HttpServerOptions {
  Endpoint listen{"127.0.0.1", 0};
  // True: the server may listen on a network address, although it has no TLS. False: only loopback
  // addresses are allowed.
  bool insecure_allow_network = false;
  // Maximum number of open connections. When a further client connects, the server closes the
  // connection that has been without a request for the longest time.
  int connections_max = 64;
  // Time limit for each request, for each reply, and for each pause between two requests.
  Duration timeout = std::chrono::seconds(10);
};

// Serves the routes on a separate thread. Thread-safe. On a loopback address, the server accepts
// only requests whose Host is a loopback name. A web site therefore cannot read the pages through
// its visitor's browser (DNS rebinding).
class HttpServer {
 public:
  // Starts the server. PERMISSION_DENIED: the address is a network address and
  // insecure_allow_network is false. UNAVAILABLE: the port is in use; the message names the port.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                     std::vector<HttpRoute> routes);
  ~HttpServer();  // closes all connections; the server calls no route afterwards

  const Endpoint& endpoint() const;  // address of the server, with the actual port

 private:
  HttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::http
