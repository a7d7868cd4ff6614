// What a daemon shows of itself in a browser, and the routes that show it. The daemon says what
// there is to show (StatusDocument); how it looks is the page's business (status_page.html).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http_server.h"

namespace tandem {

// A curve: x ascending.
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
  std::vector<std::pair<std::string, std::string>> facts;  // in the order in which they are shown
  std::vector<StatusSeries> series;
  std::vector<StatusTable> tables;
};

std::string ToJson(const StatusDocument& document);

// Of processes that wait for each other, by number with the seconds that they waited in such a time
// ("in the last minute"), the one that hardly waits itself: "KIND 1: others waited 4.0 s more in
// the last minute". "none" when all wait alike, "-" for fewer than two.
std::string SlowestText(const std::string& kind, const std::vector<std::pair<int, double>>& waited,
                        const std::string& when);

// "/" (the page), its script and style, "/status.json", "/metrics" (Prometheus text), "/healthz"
// (200 while the process answers), "/readyz" (200 or 503). `metrics` must outlive the server;
// `document` may wait for long: it is called on a thread apart, and a reader waits at most 50 ms
// for it (latest_document.h). It must work until the routes are gone.
std::vector<HttpRoute> StatusRoutes(std::function<StatusDocument()> document,
                                    const Metrics& metrics);

// "/healthz" and "/readyz" alone.
std::vector<HttpRoute> HealthRoutes(std::function<StatusDocument()> document);

// Serves StatusRoutes at `listen` (host:port); nullptr when it is empty.
StatusOr<std::unique_ptr<HttpServer>> ServeStatus(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document,
                                                  const Metrics& metrics);

// Serves HealthRoutes at `listen`, for probes that need no status page; nullptr when it is empty.
StatusOr<std::unique_ptr<HttpServer>> ServeHealth(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document);

}  // namespace tandem
