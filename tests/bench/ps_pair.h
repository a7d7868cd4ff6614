// A pserver in this process and a client of it, for figures.
#pragma once

#include <memory>

#include "common/base/metrics.h"
#include "pserver/client/client.h"
#include "pserver/pserver.h"
#include "tests/support/tls_test_util.h"

namespace tandem::bench {

struct PsPair {
  // `authority` null: without TLS.
  Status Start(PsTransport transport, const TestAuthority* authority = nullptr) {
    PserverOptions served;
    PsOptions options;
    options.transport = transport;
    if (authority != nullptr) {
      served.rpc.tls = authority->Issue(options.job, PeerRole::kPserver);
      options.tls = authority->Issue(options.job, PeerRole::kTrainer);
    }
    TD_ASSIGN_OR_RETURN(server, Pserver::Start(served, metrics));
    TD_ASSIGN_OR_RETURN(client, PsClient::Connect({ToString(server->endpoint())}, options));
    return OkStatus();
  }

  Metrics metrics;
  std::unique_ptr<Pserver> server;
  std::unique_ptr<PsClient> client;
};

}  // namespace tandem::bench
