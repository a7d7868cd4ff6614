// A small HTTP/1.1 server for browsers and scrapers: metrics, health, the status page. It answers
// GET and HEAD from a table of paths and nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/endpoint.h"

namespace tandem {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpRoute {
  std::string path;  // exactly; what follows a '?' is not looked at
  // Called on the server's thread, one call at a time; must not block for long.
  std::function<HttpReply()> reply;
};

struct HttpServerOptions {
  Endpoint listen{"127.0.0.1", 0};
  bool insecure_allow_network = false;  // there is no TLS here: loopback only unless said
  // One more closes the connection whose last request is longest ago: idle connections keep no
  // probe out.
  int connections_max = 64;
  Duration timeout = std::chrono::seconds(10);  // for a request, for an answer, and between them
};

// Thread-safe. Behind a loopback address only requests whose Host is a loopback name are answered,
// so that a web site cannot read the page through its visitor's browser (DNS rebinding).
class HttpServer {
 public:
  // PERMISSION_DENIED for a network address without leave; UNAVAILABLE naming a taken port.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                     std::vector<HttpRoute> routes);
  ~HttpServer();  // closes all connections; no route is called afterwards

  const Endpoint& endpoint() const;  // with the port that was chosen

 private:
  HttpServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
