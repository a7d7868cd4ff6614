// A pserver with a deliberate bug (ShardBug), for tests that must detect it. It logs with
// wal_sync=always and runs until it is killed:
//   broken-pserver LISTEN INDEX DATA_DIR no_dedup|marks_not_kept|never_asks|none
#include <unistd.h>

#include <cstdio>
#include <string>

#include "common/base/check.h"
#include "pserver/pserver.h"

namespace tandem {
namespace {

int Serve(int argc, char** argv) {
  CHECK_EQ(argc, 5);
  const std::string bug = argv[4];
  pserver::PserverOptions options;
  options.rpc.listen = *ParseEndpoint(argv[1]);
  options.index = std::stoi(argv[2]);
  options.data_dir = argv[3];
  options.durability = pserver::Durability::kLogged;
  options.wal_sync = pserver::WalSync::kAlways;
  if (bug == "no_dedup") options.bug = pserver::ShardBug::kNoDedup;
  if (bug == "never_asks") {
    options.bug = pserver::ShardBug::kNeverAsks;
    options.durability = pserver::Durability::kReplayable;
  }
  if (bug == "marks_not_kept") options.bug = pserver::ShardBug::kMarksNotKept;
  Metrics metrics;
  const auto pserver = pserver::Pserver::Start(options, metrics);
  if (!pserver.ok()) {
    std::fprintf(stderr, "%s\n", ToString(pserver.status()).c_str());
    return 1;
  }
  while (true) pause();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Serve(argc, argv); }
