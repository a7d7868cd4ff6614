// The status page of a daemon, and the HTTP routes for it. The daemon provides the content
// (StatusDocument); status_page.html determines the layout.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http_server.h"

namespace tandem::http {

// One curve of the status page. Its points are in ascending order of x.
struct StatusSeries {
  std::string name, x_label;
  std::vector<std::pair<double, double>> points;
};

struct StatusTable {
  std::string name;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each row has as many cells as `columns` has names
};

struct StatusDocument {
  std::string title;     // title of the page, such as "tandem-trainer 0 of job lenet"
  bool ready = false;    // reply status of /readyz: 200 if true, 503 if false
  double progress = -1;  // progress of the job, from 0 to 1; negative: unknown
  // Names and values, in the order in which the page shows them.
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<StatusSeries> series;
  std::vector<StatusTable> tables;
};

std::string ToJson(const StatusDocument& document);

// Returns a text about the slowest of several processes that wait for each other. The slowest
// process is the process that waited least, because the other processes wait for it. `waited`: the
// number of each process, and the seconds that the process waited. `when`: the period of the waits,
// such as "in the last minute". Example: "KIND 1: the others waited 4.0 s longer for it in the last
// minute". Returns "none" if the two shortest waits differ by less than 0.1 s, and "-" for fewer
// than two processes.
std::string SlowestText(const std::string& kind, const std::vector<std::pair<int, double>>& waited,
                        const std::string& when);

// Returns the routes "/" (the page), the page's script and style, "/status.json", "/metrics"
// (Prometheus text), "/healthz" (200 while the process responds) and "/readyz" (200 or 503).
// `document` may block: a separate thread calls it, and a request waits at most 50 ms for the
// result (latest_document.h). `metrics` and the objects that `document` uses must outlive the
// routes.
std::vector<HttpRoute> StatusRoutes(std::function<StatusDocument()> document,
                                    const Metrics& metrics);

// Returns only the routes "/healthz" and "/readyz" of StatusRoutes.
std::vector<HttpRoute> HealthRoutes(std::function<StatusDocument()> document);

// Serves StatusRoutes at `listen` (host:port). Returns nullptr if `listen` is empty.
StatusOr<std::unique_ptr<HttpServer>> ServeStatus(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document,
                                                  const Metrics& metrics);

// Serves HealthRoutes at `listen` (host:port), for health probes of a daemon without a status page.
// Returns nullptr if `listen` is empty.
StatusOr<std::unique_ptr<HttpServer>> ServeHealth(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document);

}  // namespace tandem::http
