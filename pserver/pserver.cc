#include "pserver/pserver.h"

#include <grpcpp/impl/codegen/service_type.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/base/require.h"
#include "common/rpc/admissions.h"
#include "common/rpc/audit_log.h"
#include "common/shm_rpc/shm_rpc_server.h"
#include "common/threads/runner.h"
#include "proto/pserver.pb.h"
#include "pserver/server_parts.h"
#include "pserver/service/call_metrics.h"
#include "pserver/service/deadline_driver.h"
#include "pserver/service/rpc_thread_pool.h"
#include "pserver/service/server_sessions.h"
#include "pserver/service/service.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"

namespace tandem::pserver {
namespace {

// PERMISSION_DENIED: the server would listen on a network address with TLS, but accept every
// caller. Encryption alone does not restrict access.
Status CheckExposure(const PserverOptions& options) {
  const bool knows_callers = options.rpc.tls.mutual() || !options.secret.empty();
  if (knows_callers || !options.rpc.tls.enabled() || IsLoopback(options.rpc.listen) ||
      options.rpc.insecure_allow_network) {
    return OkStatus();
  }
  return PermissionDenied(
      "cannot listen on %s, because it is a network address, and the server could not check its "
      "callers without tls_ca or a secret [TD6001]; "
      "hint: set tls_ca or a secret, or insecure_allow_network in a trusted network",
      ToString(options.rpc.listen));
}

// Maximum number of requests of standbys that wait for a thread.
constexpr size_t kStandbyQueue = 16;

struct CallPools {
  CallPools(const PserverOptions& options, Metrics& metrics)
      : pushes("push", options.push_threads, options.queue_max, metrics),
        pulls("pull", options.pull_threads, options.queue_max, metrics),
        row_pulls("row-pull", options.row_pull_threads, options.queue_max, metrics),
        others("other", options.threads, options.queue_max, metrics),
        standbys("standby", std::max(1, 2 * options.standbys), kStandbyQueue, metrics) {}
  PserverThreads Threads() { return {pushes, pulls, row_pulls, others, standbys}; }
  RpcThreadPool pushes, pulls, row_pulls, others, standbys;
};

}  // namespace

// The network side of a server. The members are destroyed in reverse order, so the gRPC server is
// destroyed before the objects that its handlers use.
struct Pserver::Impl {
  explicit Impl(Metrics& metrics) : call_metrics(metrics) {}

  CallMetrics call_metrics;
  std::unique_ptr<ServerParts> parts;
  uint64_t restored_version = 0;
  std::unique_ptr<DeadlineDriver> deadlines;
  std::unique_ptr<CallPools> pools;
  std::unique_ptr<TensorCalls> calls;
  std::unique_ptr<shm_rpc::ShmRpcServer>
      shm_server;  // null: this machine provides no shared memory, or shm_rpc is false
  std::unique_ptr<rpc::AuditLog> audit;  // null: the audit log was not requested
  std::unique_ptr<ServerSessions> sessions;
  PserverServices services;
  std::unique_ptr<rpc::RpcServer> server;

  shm_rpc::ReplyFn Counted(PserverCall call, shm_rpc::ReplyFn answer) {
    return [finish = call_metrics.Begin(call), answer = std::move(answer)](
               const Status& status, codec::EncodedMessage message) {
      finish(status);
      answer(status, std::move(message));
    };
  }
  // Starts all services on the shard of `parts`.
  Status Serve(PserverOptions options, Metrics& metrics);
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

StatusOr<Durability> ParseDurability(const std::string& text) {
  if (text == "none") return Durability::kNone;
  if (text == "logged") return Durability::kLogged;
  if (text == "replayable") return Durability::kReplayable;
  return InvalidArgument(
      "unknown durability \"%s\", expected none, replayable or logged [TD1006]%s", text,
      OrDidYouMean(text, {"none", "replayable", "logged"}));
}

Pserver::Pserver(Metrics& metrics) : impl_(std::make_unique<Impl>(metrics)) {}

Status CheckOptions(PserverOptions& options) {
  if (!options.secret.empty() && options.job.empty()) {
    return InvalidArgument(
        "the server has a secret, but the name of its job is not set [TD1007]; hint: set "
        "--job=NAME");
  }
  for (const int threads :
       {options.push_threads, options.pull_threads, options.row_pull_threads, options.threads}) {
    if (threads >= 1 && threads <= 1024) continue;
    return InvalidArgument("the server would have %d threads, expected 1 to 1024 [TD1004]",
                           threads);
  }
  if (options.member < 0 || options.member > options.standbys) {
    return InvalidArgument(
        "a server with %d standbys has no member %d [TD4028]; hint: number its members from 0 to "
        "%d",
        options.standbys, options.member, options.standbys);
  }
  TD_RETURN_IF_ERROR(CheckExposure(options));
  if (!options.rpc.tls.mutual()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const rpc::PeerIdentity self,
                      rpc::RequireIdentity(options.rpc.tls, rpc::PeerRole::kPserver, options.job));
  options.job = self.job;
  return OkStatus();
}

StatusOr<std::unique_ptr<Pserver>> Pserver::Start(PserverOptions options, Metrics& metrics) {
  TD_RETURN_IF_ERROR(CheckOptions(options));
  auto pserver = std::unique_ptr<Pserver>(new Pserver(metrics));
  Impl* impl = pserver->impl_.get();
  TD_ASSIGN_OR_RETURN(impl->parts, ServerParts::Open(options, metrics));
  const Time begin = SteadyNow();
  const StatusOr<uint64_t> restored = impl->parts->Recover();
  if (!restored.ok()) return Annotate(restored.status(), "cannot restore " + options.data_dir);
  LOG_IF(INFO, *restored != 0) << "version " << *restored << " was restored in "
                               << Seconds(SteadyNow() - begin) << " s";
  impl->restored_version = *restored;
  if (impl->parts->source() != nullptr) TD_RETURN_IF_ERROR(impl->parts->ResumeReplication());
  TD_RETURN_IF_ERROR(impl->Serve(std::move(options), metrics));
  return pserver;
}

StatusOr<std::unique_ptr<Pserver>> Pserver::Serve(PserverOptions options,
                                                  std::unique_ptr<ServerParts> parts,
                                                  Metrics& metrics) {
  auto pserver = std::unique_ptr<Pserver>(new Pserver(metrics));
  TD_REQUIRE(parts != nullptr);
  pserver->impl_->restored_version = parts->durable().shard().Info().version;
  pserver->impl_->parts = std::move(parts);
  TD_RETURN_IF_ERROR(pserver->impl_->Serve(std::move(options), metrics));
  return pserver;
}

Status Pserver::Impl::Serve(PserverOptions options, Metrics& metrics) {
  Shard& shard = parts->durable().shard();
  deadlines = std::make_unique<DeadlineDriver>(shard, parts->clock());
  pools = std::make_unique<CallPools>(options, metrics);
  calls = std::make_unique<TensorCalls>(parts->incarnation(), shard, *deadlines);
  StartShmRpc(parts->shm_memory());
  if (!options.audit_log.empty()) {
    TD_ASSIGN_OR_RETURN(audit, rpc::AuditLog::Open({options.audit_log,
                                                    absl::StrFormat("pserver %d", options.index)},
                                                   parts->clock(), metrics));
  }
  rpc::AdmissionLimits limits = rpc::LimitsForThisProcess();
  limits.callers_prove = !options.secret.empty() || options.rpc.tls.mutual();
  options.rpc.admissions = std::make_shared<rpc::Admissions>(limits);
  sessions = std::make_unique<ServerSessions>(options.secret, options.job);
  services = MakePserverServices(
      {options.index, options.member, parts->incarnation(), sessions.get(),
       options.rpc.tls.mutual(), audit.get(), [this] { return Invite(); },
       limits.callers_prove ? options.rpc.admissions : nullptr, parts->source()},
      parts->durable(), *calls, call_metrics, pools->Threads(), *deadlines);
  TD_ASSIGN_OR_RETURN(server, rpc::RpcServer::Start(options.rpc, services.All()));
  server->SetServing(true);
  return OkStatus();
}

Pserver::~Pserver() {
  if (impl_->parts != nullptr) impl_->parts->End();
  if (impl_->server != nullptr) impl_->server->Stop(SteadyNow());
  // Waits for the worker threads: a handler that has sent its reply may still run and use the
  // service.
  impl_->pools.reset();
}

const Endpoint& Pserver::endpoint() const { return impl_->server->endpoint(); }
ShardInfo Pserver::Info() const { return impl_->parts->durable().shard().Info(); }
Status Pserver::StorageStatus() const { return impl_->parts->durable().StorageStatus(); }
uint64_t Pserver::restored_version() const { return impl_->restored_version; }

std::vector<StandbyInfo> Pserver::standbys() const {
  const LogSource* const source = impl_->parts->source();
  return source == nullptr ? std::vector<StandbyInfo>() : source->standbys();
}

StatusOr<SavedCheckpoint> Pserver::SaveCheckpoint() {
  return impl_->parts->durable().Save(false, 0, CheckpointThrottle::kAnswer);
}

LogTerm Pserver::term() const {
  const LogSource* const source = impl_->parts->source();
  return source == nullptr ? LogTerm() : source->term();
}

void Pserver::GiveUp(Time deadline) {
  impl_->server->SetServing(false);
  impl_->parts->End();
  impl_->server->Stop(deadline);
}

Status Pserver::Drain(Time deadline) {
  impl_->server->SetServing(false);
  Status saved;
  ServerParts& parts = *impl_->parts;
  if (parts.storage() != nullptr && Info().initialised) saved = parts.durable().Save().status();
  parts.End();
  impl_->server->Stop(deadline);
  return saved;
}

}  // namespace tandem::pserver
