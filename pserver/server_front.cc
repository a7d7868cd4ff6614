#include "pserver/server_front.h"

#include <grpcpp/impl/codegen/service_type.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/admissions.h"
#include "common/rpc/audit_log.h"
#include "common/shm_rpc/shm_rpc_server.h"
#include "proto/pserver.pb.h"
#include "pserver/service/call_metrics.h"
#include "pserver/service/deadline_driver.h"
#include "pserver/service/rpc_thread_pool.h"
#include "pserver/service/server_sessions.h"
#include "pserver/service/service.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"

namespace tandem::pserver {
namespace {

// Maximum number of requests of standbys that wait for a thread.
constexpr size_t kStandbyQueue = 16;
// Threads for requests of replicas, which block, and maximum number of waiting requests.
constexpr int kReplicaThreads = 4;
constexpr size_t kReplicaQueue = 128;
// Threads for readers, and maximum number of their waiting calls. Two threads leave processors to
// trainers.
constexpr int kReaderThreads = 2;
constexpr size_t kReaderQueue = 4096;

struct CallPools {
  CallPools(const PserverOptions& options, Metrics& metrics)
      : pushes("push", options.calls.pushes, options.calls.queue_max, metrics),
        pulls("pull", options.calls.pulls, options.calls.queue_max, metrics),
        row_pulls("row-pull", options.calls.row_pulls, options.calls.queue_max, metrics),
        others("other", options.calls.others, options.calls.queue_max, metrics),
        standbys("standby", std::max(1, 2 * options.standbys), kStandbyQueue, metrics),
        replicas("replica", kReplicaThreads, kReplicaQueue, metrics),
        readers("reader", kReaderThreads, kReaderQueue, metrics) {}
  PserverThreads Threads() {
    return {pushes, pulls, row_pulls, others, standbys, replicas, readers};
  }
  RpcThreadPool pushes, pulls, row_pulls, others, standbys, replicas, readers;
};

}  // namespace

RespListenOptions RespListenOf(const PserverOptions& options) {
  TD_REQUIRE(options.resp_listen);
  return {.listen = *options.resp_listen,
          .tls = options.rpc.tls.enabled(),
          .has_secret = !options.secret.empty(),
          .insecure_allow_network = options.rpc.insecure_allow_network,
          .patience = options.rpc.patience};
}

// The members are destroyed in reverse order, so the gRPC server is destroyed before the objects
// that its handlers use.
struct ServerFront::Impl {
  Impl(ServerParts& of, Metrics& metrics) : parts(of), call_metrics(metrics) {}

  ServerParts& parts;
  CallMetrics call_metrics;
  std::unique_ptr<DeadlineDriver> deadlines;
  std::unique_ptr<CallPools> pools;
  std::unique_ptr<TensorCalls> calls;
  std::unique_ptr<shm_rpc::ShmRpcServer>
      shm_server;  // null: this machine provides no shared memory, or shm_rpc is false
  std::unique_ptr<rpc::AuditLog> audit;  // null: the audit log was not requested
  std::unique_ptr<ServerSessions> sessions;
  PserverServices services;
  std::unique_ptr<rpc::RpcServer> server;
  std::unique_ptr<RespServer> resp;  // null: Redis clients are not answered

  shm_rpc::ReplyFn Counted(PserverCall call, shm_rpc::ReplyFn answer) {
    return [finish = call_metrics.Begin(call), answer = std::move(answer)](
               const Status& status, codec::EncodedMessage message) {
      finish(status);
      answer(status, std::move(message));
    };
  }
  // Starts all services on the shard of `parts`.
  Status Serve(PserverOptions options, Metrics& metrics, const ReplicaView& replica);
  // Answers Redis clients if the options have an address for them.
  Status StartResp(const PserverOptions& options, Metrics& metrics,
                   const std::function<LogFollower::Progress()>& replica);
  // Starts the shm RPC server. `memory`: shared memory for clients on this host; null: none.
  void StartShmRpc(const std::optional<shm_rpc::ServerMemory>& memory) {
    if (!memory) return;
    StatusOr<std::unique_ptr<shm_rpc::ShmRpcServer>> started = shm_rpc::ShmRpcServer::Start(
        *memory, [this](uint32_t method, codec::Fragments request, shm_rpc::ReplyFn answer) {
          switch (method) {
            case LANE_METHOD_PUSH:
              return calls->Push(request, Counted(PserverCall::kPush, std::move(answer)));
            case LANE_METHOD_PULL:
              return calls->Pull(request, Counted(PserverCall::kPull, std::move(answer)));
            default:
              answer(Unimplemented("the shared-memory connection has no method %d", method), {});
          }
        });
    if (started.ok()) {
      shm_server = *std::move(started);
    } else {
      LOG(WARNING) << "shared-memory connections are not available: " << started.status().message();
    }
  }
  StatusOr<shm_rpc::ShmRpcTicket> Invite() {
    if (shm_server == nullptr)
      return Unimplemented("this server does not support shared-memory connections");
    return shm_server->Invite();
  }
};

Status ServerFront::Impl::Serve(PserverOptions options, Metrics& metrics,
                                const ReplicaView& replica) {
  Shard& shard = parts.durable().shard();
  deadlines = std::make_unique<DeadlineDriver>(shard, parts.clock());
  pools = std::make_unique<CallPools>(options, metrics);
  calls = std::make_unique<TensorCalls>(parts.incarnation(), shard, *deadlines,
                                        /*observers_only=*/replica.progress != nullptr);
  // Readers of a replica use gRPC.
  if (replica.progress == nullptr) StartShmRpc(parts.shm_memory());
  if (!options.audit_log.empty()) {
    TD_ASSIGN_OR_RETURN(audit, rpc::AuditLog::Open({options.audit_log,
                                                    absl::StrFormat("pserver %d", options.index)},
                                                   parts.clock(), metrics));
  }
  rpc::AdmissionLimits limits = rpc::LimitsForThisProcess();
  if (replica.progress != nullptr) limits.readers_max = limits.connections_max;
  limits.callers_prove = !options.secret.empty() || options.rpc.tls.mutual();
  options.rpc.admissions = std::make_shared<rpc::Admissions>(limits);
  sessions = std::make_unique<ServerSessions>(options.secret, options.job);
  services = MakePserverServices(
      {options.index, options.member, parts.incarnation(), sessions.get(), options.rpc.tls.mutual(),
       audit.get(), [this] { return Invite(); },
       limits.callers_prove ? options.rpc.admissions : nullptr, parts.source(), replica.progress,
       replica.history != nullptr ? replica.history : parts.source()},
      parts.durable(), *calls, call_metrics, pools->Threads(), *deadlines);
  // The gRPC server is the last part that can fail, because its calls use all others.
  TD_RETURN_IF_ERROR(StartResp(options, metrics, replica.progress));
  TD_ASSIGN_OR_RETURN(server, rpc::RpcServer::Start(options.rpc, services.All()));
  server->SetServing(true);
  return OkStatus();
}

Status ServerFront::Impl::StartResp(const PserverOptions& options, Metrics& metrics,
                                    const std::function<LogFollower::Progress()>& replica) {
  if (!options.resp_listen) return OkStatus();
  RespTarget target;
  target.shard = &parts.durable().shard();
  target.deadlines = deadlines.get();
  target.secret = options.secret;
  target.index = options.index;
  target.audit = audit.get();
  target.replica = replica;
  TD_ASSIGN_OR_RETURN(resp, RespServer::Start(RespListenOf(options), std::move(target), metrics));
  return OkStatus();
}

StatusOr<std::unique_ptr<ServerFront>> ServerFront::Start(PserverOptions options,
                                                          ServerParts& parts, Metrics& metrics,
                                                          const ReplicaView& replica) {
  auto impl = std::make_unique<Impl>(parts, metrics);
  TD_RETURN_IF_ERROR(impl->Serve(std::move(options), metrics, replica));
  return std::unique_ptr<ServerFront>(new ServerFront(std::move(impl)));
}

ServerFront::ServerFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ServerFront::~ServerFront() {
  impl_->resp.reset();
  impl_->server->Stop(SteadyNow());
  // Waits for the worker threads: a handler that has sent its reply may still run and use the
  // service.
  impl_->pools.reset();
}

const Endpoint& ServerFront::endpoint() const { return impl_->server->endpoint(); }
std::optional<Endpoint> ServerFront::resp_endpoint() const {
  if (impl_->resp == nullptr) return std::nullopt;
  return impl_->resp->endpoint();
}
void ServerFront::StopServing() { impl_->server->SetServing(false); }
void ServerFront::Stop(Time deadline) { impl_->server->Stop(deadline); }

}  // namespace tandem::pserver
