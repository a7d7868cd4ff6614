#include "deploy/launch/scale_metrics.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/endpoint.h"

namespace tandem::deploy {

StatusOr<std::unique_ptr<ScaleMetrics>> ScaleMetrics::Serve(const std::string& listen,
                                                            bool insecure_allow_network) {
  if (listen.empty()) return nullptr;
  auto served = std::make_unique<ScaleMetrics>();
  http::HttpServerOptions options;
  StatusOr<Endpoint> address = ParseEndpoint(listen);
  if (!address.ok()) return Annotate(address.status(), "--metrics_listen");
  if (address->is_unix()) {
    return InvalidArgument("--metrics_listen=%s: expected HOST:PORT [TD1009]", listen);
  }
  options.listen = *std::move(address);
  options.insecure_allow_network = insecure_allow_network;
  std::vector<http::HttpRoute> routes = {
      {"/metrics", [metrics = &served->metrics_] {
         return http::HttpReply{200, "text/plain; version=0.0.4; charset=utf-8", metrics->Text()};
       }}};
  StatusOr<std::unique_ptr<http::HttpServer>> server =
      http::HttpServer::Start(options, std::move(routes));
  if (!server.ok()) return Annotate(server.status(), "--metrics_listen");
  served->server_ = *std::move(server);
  return served;
}

void ScaleMetrics::Show(const ScaleState& state) {
  if (shown_ == state) return;
  shown_ = state;
  ShowSide("tandem_workers", "workers", state.workers);
  ShowSide("tandem_pservers", "pservers", state.pservers);
}

void ScaleMetrics::ShowSide(const std::string& name, const std::string& what,
                            const ScaleSide& side) {
  const auto set = [&](const std::string& suffix, const std::string& help, int value) {
    metrics_.GetGauge(name + suffix, help).Set(value);
  };
  set("", absl::StrCat("Number of ", what, " of the job that run now."), side.now);
  set("_desired", absl::StrCat("Number of ", what, " that the user requested."), side.desired);
  set("_min", absl::StrCat("Least number of ", what, "."), side.least);
  set("_max", absl::StrCat("Largest number of ", what, "."), side.most);
}

}  // namespace tandem::deploy
