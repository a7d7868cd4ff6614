// The gRPC side of a pserver: takes calls, checks the token, hands the work to worker threads and
// the shard, and answers. Includes gRPC: for .cc files only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/runner.h"
#include "common/lane/handshake.h"
#include "pserver/call_metrics.h"
#include "pserver/deadline_driver.h"
#include "pserver/shard.h"
#include "pserver/tensor_calls.h"

namespace grpc {
class Service;
}

namespace tandem {

struct PserverServiceOptions {
  int index = 0;
  uint64_t server_incarnation = 1;
  std::string secret;  // empty: no token is asked for
  bool roles = false;  // callers show certificates: pserver/access.h says who may what
  // The newest checkpoint on disk, and what SaveCheckpoint and RestoreCheckpoint do. Thread-safe.
  std::function<uint64_t()> checkpoint_version;
  std::function<StatusOr<std::pair<uint64_t, size_t>>()> save;  // version, bytes
  std::function<StatusOr<uint64_t>()> restore;                  // version
  std::function<StatusOr<LaneInvitation>()> invite;             // to a lane
};

// Everything handed in must outlive the service; the service must outlive its server.
std::unique_ptr<grpc::Service> MakePserverService(PserverServiceOptions options, Shard& shard,
                                                  TensorCalls& calls, CallMetrics& metrics,
                                                  Runner& workers, DeadlineDriver& deadlines);

}  // namespace tandem
