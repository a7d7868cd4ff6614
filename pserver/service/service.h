// The gRPC side of a pserver: accepts calls, checks callers, passes the work to worker threads and
// the shard, and replies. Includes gRPC: for .cc files only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/shm_rpc/handshake.h"
#include "common/threads/runner.h"
#include "pserver/service/call_metrics.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/shard/trainers/deadlines.h"

namespace grpc {
class Service;
}

namespace tandem::rpc {
class Admissions;
class AuditLog;
}  // namespace tandem::rpc

namespace tandem::pserver {

class ServerSessions;

struct PserverServiceOptions {
  int index = 0;
  uint64_t server_incarnation = 1;
  ServerSessions* sessions = nullptr;  // checks that callers hold the job's secret
  // Callers have certificates: pserver/service/access.h gives the calls of each role.
  bool roles = false;
  rpc::AuditLog* audit = nullptr;                           // audit log of every call; null: none
  std::function<StatusOr<shm_rpc::ShmRpcTicket>()> invite;  // creates shm RPC tickets; thread-safe
  // Receives the proofs of callers; null if callers need no proof.
  std::shared_ptr<rpc::Admissions> admissions;
};

// Threads that handle calls.
struct PserverThreads {
  Runner &pushes, &pulls, &row_pulls;  // row_pulls: pulls of rows only
  Runner& others;
};

// The same calls under two names. `v1` forwards to `unversioned`.
struct PserverServices {
  std::unique_ptr<grpc::Service> unversioned;  // tandem.ParameterServer
  std::unique_ptr<grpc::Service> v1;           // tandem.pserver.v1.ParameterServer

  std::vector<grpc::Service*> All() const { return {unversioned.get(), v1.get()}; }
};

// All arguments must outlive the services; the services must outlive their server.
PserverServices MakePserverServices(PserverServiceOptions options, DurableShard& durable,
                                    TensorCalls& calls, CallMetrics& metrics,
                                    PserverThreads threads, Deadlines& deadlines);

}  // namespace tandem::pserver
