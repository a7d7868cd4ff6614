// The gRPC side of a pserver: takes calls, checks who makes them, hands the work to worker threads
// and the shard, and answers. Includes gRPC: for .cc files only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/runner.h"
#include "common/shm_rpc/handshake.h"
#include "pserver/service/call_metrics.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/deadlines.h"
#include "pserver/shard/durable_shard.h"

namespace grpc {
class Service;
}

namespace tandem {

class Admissions;
class AuditLog;
class ServerSessions;

struct PserverServiceOptions {
  int index = 0;
  uint64_t server_incarnation = 1;
  ServerSessions* sessions = nullptr;  // callers prove there that they hold the job's secret
  bool roles = false;  // callers show certificates: pserver/service/access.h says who may what
  AuditLog* audit = nullptr;                       // every call is noted there; null: nowhere
  std::function<StatusOr<ShmRpcTicket>()> invite;  // to a lane; thread-safe
  // Is told who proved what; null where callers have nothing to prove.
  std::shared_ptr<Admissions> admissions;
};

// Where calls are worked on.
struct PserverThreads {
  Runner &pushes, &pulls, &row_pulls;  // pulls of rows alone
  Runner& others;
};

// Everything handed in must outlive the service; the service must outlive its server.
std::unique_ptr<grpc::Service> MakePserverService(PserverServiceOptions options,
                                                  DurableShard& durable, TensorCalls& calls,
                                                  CallMetrics& metrics, PserverThreads threads,
                                                  Deadlines& deadlines);

}  // namespace tandem
