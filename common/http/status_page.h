// The status page of a daemon and its routes. The daemon provides the content (StatusDocument);
// status_page.html determines its layout.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http_server.h"

namespace tandem::http {

// A curve, ascending by x.
struct StatusSeries {
  std::string name, x_label;
  std::vector<std::pair<double, double>> points;
};

struct StatusTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
};

struct StatusDocument {
  std::string title;                                       // "tandem-trainer 0 of job lenet"
  bool ready = false;                                      // /readyz
  double progress = -1;                                    // 0 to 1; negative: unknown
  std::vector<std::pair<std::string, std::string>> facts;  // in display order
  std::vector<StatusSeries> series;
  std::vector<StatusTable> tables;
};

std::string ToJson(const StatusDocument& document);

// Finds the slowest of several processes that wait for each other: the one that waits least itself.
// `waited` holds (process number, seconds waited) for the time `when`, such as "in the last
// minute". Returns "KIND 1: others waited 4.0 s more in the last minute"; "none" if all wait
// equally; "-" for fewer than two processes.
std::string SlowestText(const std::string& kind, const std::vector<std::pair<int, double>>& waited,
                        const std::string& when);

// The routes "/" (the page), its script and style, "/status.json", "/metrics" (Prometheus text),
// "/healthz" (200 while the process responds) and "/readyz" (200 or 503). `metrics` must outlive
// the server. `document` may block: a separate thread calls it, and a reader waits at most 50 ms
// for it (latest_document.h). It must stay valid until the routes are destroyed.
std::vector<HttpRoute> StatusRoutes(std::function<StatusDocument()> document,
                                    const Metrics& metrics);

// The routes "/healthz" and "/readyz" only.
std::vector<HttpRoute> HealthRoutes(std::function<StatusDocument()> document);

// Serves StatusRoutes at `listen` (host:port). Returns nullptr if `listen` is empty.
StatusOr<std::unique_ptr<HttpServer>> ServeStatus(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document,
                                                  const Metrics& metrics);

// Serves HealthRoutes at `listen`, for probes that need no status page; nullptr when it is empty.
StatusOr<std::unique_ptr<HttpServer>> ServeHealth(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document);

}  // namespace tandem::http
