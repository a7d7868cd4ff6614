// Serves the numbers of workers and pservers of a job as metrics, for autoscalers
// (--metrics_listen).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/http/http_server.h"
#include "deploy/launch/job_scale.h"

namespace tandem::deploy {

// A thread of the HTTP server answers requests for /metrics; one other thread calls Show.
class ScaleMetrics {
 public:
  // Starts the server at `listen`, which is HOST:PORT. Returns null if `listen` is empty.
  // INVALID_ARGUMENT: `listen` is no HOST:PORT. PERMISSION_DENIED: it is a network address, and
  // `insecure_allow_network` is false. UNAVAILABLE: the port is in use.
  static StatusOr<std::unique_ptr<ScaleMetrics>> Serve(const std::string& listen,
                                                       bool insecure_allow_network);
  // Cheap if nothing has changed.
  void Show(const ScaleState& state);

 private:
  void ShowSide(const std::string& name, const std::string& what, const ScaleSide& side);

  std::optional<ScaleState> shown_;
  Metrics metrics_;
  std::unique_ptr<http::HttpServer> server_;  // ends before metrics_
};

}  // namespace tandem::deploy
