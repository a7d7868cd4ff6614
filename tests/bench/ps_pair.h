// A pserver in this process and a client of this server, for benchmarks.
#pragma once

#include <memory>

#include "common/base/metrics.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"

namespace tandem::bench {

struct PsPair {
  Status Start(const pserver::PserverOptions& served, const ps::PsOptions& options) {
    TD_ASSIGN_OR_RETURN(server, pserver::Pserver::Start(served, metrics));
    TD_ASSIGN_OR_RETURN(client, ps::PsClient::Connect({ToString(server->endpoint())}, options));
    return OkStatus();
  }

  Metrics metrics;
  std::unique_ptr<pserver::Pserver> server;
  std::unique_ptr<ps::PsClient> client;
};

}  // namespace tandem::bench
