// The gRPC part of a pserver. It accepts calls, checks callers, passes the work to worker threads
// and the shard, and replies. Includes gRPC: for .cc files only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/shm_rpc/handshake.h"
#include "common/threads/runner.h"
#include "pserver/replication/log_follower.h"
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

class LogSource;
class PserverHandlers;
class ServerSessions;
class StateHistory;

struct PserverServiceOptions {
  int index = 0;
  int member = 0;  // number of this server among its primary and standbys
  uint64_t server_incarnation = 1;
  ServerSessions* sessions = nullptr;  // checks that callers have the job's secret
  // true: callers have certificates, and a caller may make only the calls of its role
  // (pserver/service/access.h).
  bool roles = false;
  rpc::AuditLog* audit = nullptr;  // records every call; null: no audit log
  std::function<StatusOr<shm_rpc::ShmRpcTicket>()> invite;  // creates shm RPC tickets; thread-safe
  // Learns which callers proved that they have the secret; null: callers need no proof.
  std::shared_ptr<rpc::Admissions> admissions;
  LogSource* source = nullptr;  // sends the log to standbys and replicas; null: there is no log
  // Returns the progress of a replica. The service then refuses all calls that do not only read.
  // null: this server is no replica.
  std::function<LogFollower::Progress()> replica;
  // The history of the server's state; null: there is no log, so no reader can follow a table.
  const StateHistory* history = nullptr;
};

// The threads that handle calls, by kind of call.
struct PserverThreads {
  Runner &pushes, &pulls, &row_pulls;  // row_pulls: for pulls of rows only
  Runner& others;
  Runner& standbys;  // for requests of standbys, which block
  Runner& replicas;  // for requests of replicas, which block
  Runner& readers;   // for callers with role reader, and for FetchChanges
};

// Two gRPC services with the same calls under different names, and their handlers.
struct PserverServices {
  std::shared_ptr<PserverHandlers> handlers;   // destroyed after the services
  std::unique_ptr<grpc::Service> unversioned;  // the gRPC service tandem.ParameterServer
  std::unique_ptr<grpc::Service> v1;           // the gRPC service tandem.pserver.v1.ParameterServer

  std::vector<grpc::Service*> All() const { return {unversioned.get(), v1.get()}; }
};

// Makes the gRPC services of a pserver. All arguments must outlive the services, and the services
// must outlive their gRPC server.
PserverServices MakePserverServices(PserverServiceOptions options, DurableShard& durable,
                                    TensorCalls& calls, CallMetrics& metrics,
                                    PserverThreads threads, Deadlines& deadlines);

}  // namespace tandem::pserver
