#include "common/http/status_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/require.h"
#include "common/http/latest_document.h"
#include "common/http/status_page_text.h"

namespace tandem::http {

std::string ToJson(const StatusDocument& document) {
  using nlohmann::json;
  json series = json::array(), tables = json::array();
  for (const StatusSeries& s : document.series) {
    json points = json::array();
    for (const auto& [x, y] : s.points) {
      // NaN and infinity become null, because JSON has no numbers for them.
      points.push_back({x, std::isfinite(y) ? json(y) : json(nullptr)});
    }
    series.push_back({{"name", s.name}, {"x_label", s.x_label}, {"points", points}});
  }
  for (const StatusTable& t : document.tables) {
    for (const auto& row : t.rows) TD_REQUIRE(row.size() == t.columns.size());
    tables.push_back({{"name", t.name}, {"columns", t.columns}, {"rows", t.rows}});
  }
  json facts = json::array();
  for (const auto& [name, value] : document.facts) facts.push_back({name, value});
  const json whole = {
      {"title", document.title}, {"ready", document.ready}, {"progress", document.progress},
      {"facts", facts},          {"series", series},        {"tables", tables}};
  // Replaces bytes that are not UTF-8, because dump() would throw. Such bytes can be in names from
  // outside.
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string SlowestText(const std::string& kind, const std::vector<std::pair<int, double>>& waited,
                        const std::string& when) {
  if (waited.size() < 2) return "-";
  std::vector<std::pair<int, double>> least = waited;
  std::partial_sort(least.begin(), least.begin() + 2, least.end(),
                    [](const auto& a, const auto& b) { return a.second < b.second; });
  constexpr double kSecondsMin = 0.1;
  const double more = least[1].second - least[0].second;
  if (more < kSecondsMin) return "none";
  return absl::StrFormat("%s %d: the others waited %.1f s longer for it %s", kind, least[0].first,
                         more, when);
}

namespace {

std::vector<HttpRoute> ProbeRoutes(std::shared_ptr<LatestDocument> latest) {
  return {
      {"/healthz", [] { return HttpReply{.body = "ok\n"}; }},
      {"/readyz",
       [latest = std::move(latest)] {
         const bool ready = latest->Get().ready;
         return HttpReply{.status = ready ? 200 : 503, .body = ready ? "ready\n" : "not ready\n"};
       }},
  };
}

}  // namespace

std::vector<HttpRoute> HealthRoutes(std::function<StatusDocument()> document) {
  return ProbeRoutes(std::make_shared<LatestDocument>(std::move(document)));
}

std::vector<HttpRoute> StatusRoutes(std::function<StatusDocument()> document,
                                    const Metrics& metrics) {
  const auto latest = std::make_shared<LatestDocument>(std::move(document));
  const auto text = [](std::string type, const char* body) {
    return [type = std::move(type), body] { return HttpReply{200, type, body}; };
  };
  std::vector<HttpRoute> routes = {
      {"/", text("text/html; charset=utf-8", kStatusPageHtml)},
      {"/status_page.css", text("text/css; charset=utf-8", kStatusPageCss)},
      {"/status_page.js", text("text/javascript; charset=utf-8", kStatusPageJs)},
      {"/status.json",
       [latest] {
         return HttpReply{200, "application/json", ToJson(latest->Get())};
       }},
      {"/metrics",
       [&metrics] {
         return HttpReply{200, "text/plain; version=0.0.4", metrics.Text()};
       }},
  };
  for (HttpRoute& route : ProbeRoutes(latest)) routes.push_back(std::move(route));
  return routes;
}

namespace {

StatusOr<std::unique_ptr<HttpServer>> Serve(const std::string& listen, bool insecure_allow_network,
                                            std::vector<HttpRoute> routes) {
  if (listen.empty()) return nullptr;
  HttpServerOptions options;
  TD_ASSIGN_OR_RETURN(options.listen, ParseEndpoint(listen));
  if (options.listen.is_unix()) {
    return InvalidArgument("address \"%s\": expected HOST:PORT for a status page [TD1009]", listen);
  }
  options.insecure_allow_network = insecure_allow_network;
  return HttpServer::Start(options, std::move(routes));
}

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> ServeStatus(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document,
                                                  const Metrics& metrics) {
  return Serve(listen, insecure_allow_network, StatusRoutes(std::move(document), metrics));
}

StatusOr<std::unique_ptr<HttpServer>> ServeHealth(const std::string& listen,
                                                  bool insecure_allow_network,
                                                  std::function<StatusDocument()> document) {
  return Serve(listen, insecure_allow_network, HealthRoutes(std::move(document)));
}

}  // namespace tandem::http
