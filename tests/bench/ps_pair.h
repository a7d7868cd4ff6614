// A pserver in this process and a client of it, for figures.
#pragma once

#include <memory>

#include "common/base/metrics.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"

namespace tandem::bench {

struct PsPair {
  Status Start(const PserverOptions& served, const PsOptions& options) {
    TD_ASSIGN_OR_RETURN(server, Pserver::Start(served, metrics));
    TD_ASSIGN_OR_RETURN(client, PsClient::Connect({ToString(server->endpoint())}, options));
    return OkStatus();
  }

  Metrics metrics;
  std::unique_ptr<Pserver> server;
  std::unique_ptr<PsClient> client;
};

}  // namespace tandem::bench
