// A pserver with a deliberate error (tests/sim/mutants) that tests must detect. The pserver logs
// with wal_sync=always, prints its address and runs until it is killed. Usage:
// broken-pserver-MUTANT LISTEN INDEX DATA_DIR
#include <unistd.h>

#include <cstdio>
#include <string>

#include "common/base/check.h"
#include "pserver/pserver.h"

namespace tandem {
namespace {

int Serve(int argc, char** argv) {
  CHECK_EQ(argc, 4);
  pserver::PserverOptions options;
  options.rpc.listen = *ParseEndpoint(argv[1]);
  options.index = std::stoi(argv[2]);
  options.data_dir = argv[3];
  options.durability = pserver::Durability::TANDEM_BROKEN_DURABILITY;
  options.wal_sync.when = pserver::WalSync::kAlways;
  Metrics metrics;
  const auto pserver = pserver::Pserver::Start(options, metrics);
  if (!pserver.ok()) {
    std::fprintf(stderr, "%s\n", ToString(pserver.status()).c_str());
    return 1;
  }
  std::printf("listening on %s\n", ToString((*pserver)->endpoint()).c_str());
  std::fflush(stdout);
  while (true) pause();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Serve(argc, argv); }
