#include "pserver/pserver.h"

#include <grpcpp/impl/codegen/service_type.h>
#include <sys/resource.h>

#include <cerrno>
#include <future>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "common/rpc/admissions.h"
#include "common/rpc/audit_log.h"
#include "common/shm_rpc/shm_rpc_server.h"
#include "common/threads/runner.h"
#include "proto/pserver.pb.h"
#include "pserver/rocksdb/cold_store.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/service/call_metrics.h"
#include "pserver/service/deadline_driver.h"
#include "pserver/service/rpc_thread_pool.h"
#include "pserver/service/server_sessions.h"
#include "pserver/service/service.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"

namespace tandem::pserver {
namespace {

// Maximum bytes of shared memory for messages of clients on this host. The server reads these
// messages in place. Unused pages use no memory.
constexpr size_t kShmRpcMemoryBytes = size_t{32} << 30;

std::optional<shm_rpc::ServerMemory> MakeShmRpcMemory() {
  StatusOr<shm_rpc::ServerMemory> memory = shm_rpc::ServerMemory::Make(kShmRpcMemoryBytes);
  if (memory.ok()) return *std::move(memory);
  LOG(WARNING) << "shared-memory connections are not available: " << memory.status().message();
  return std::nullopt;
}

// Lowers the priority of the calling thread, because a checkpoint is less urgent than a push.
void GiveWay() {
  constexpr int kNice = 10;
  // On Linux, this call changes only the calling thread.
  const bool lowered = setpriority(PRIO_PROCESS, 0, kNice) == 0;
  LOG_IF(WARNING, !lowered) << "cannot lower the priority of the checkpoint writer: "
                            << ErrnoText(errno);
}

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

uint64_t NewIncarnation() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return number == 0 ? 1 : number;
}

struct CallPools {
  CallPools(const PserverOptions& options, Metrics& metrics)
      : pushes("push", options.push_threads, options.queue_max, metrics),
        pulls("pull", options.pull_threads, options.queue_max, metrics),
        row_pulls("row-pull", options.row_pull_threads, options.queue_max, metrics),
        others("other", options.threads, options.queue_max, metrics) {}
  PserverThreads Threads() { return {pushes, pulls, row_pulls, others}; }
  RpcThreadPool pushes, pulls, row_pulls, others;
};

}  // namespace

// The parts of a server. The members are destroyed in reverse order, so the gRPC server is
// destroyed before the objects that its handlers use.
struct Pserver::Impl {
  explicit Impl(Metrics& metrics) : call_metrics(metrics) {}

  CallMetrics call_metrics;
  RealClock clock;
  CpuDevice device;
  exec::Backend backend = exec::Backend::Cpu();
  std::optional<exec::Backend> slice_backend;  // set if slices are on another device than `device`
  std::unique_ptr<Device> slice_device;        // set together with slice_backend
  CheckpointThrottle pace{
      {[this] { return durable == nullptr ? 0 : durable->shard().pushes(); }, {}}};
  // Set when the shutdown begins. A second pending request makes the writers of checkpoints stop
  // their pauses.
  std::optional<CheckpointThrottle::Wish> hurry;
  std::unique_ptr<Storage> storage;  // null: there is no data directory
  uint64_t restored_version = 0;
  std::unique_ptr<ColdStore> cold;        // null: all rows of tables are in memory
  std::unique_ptr<ForkJoin> row_workers;  // threads for updates; used only under the shard's lock
  std::unique_ptr<DurableShard> durable;
  std::unique_ptr<LogFlushThread> log_driver;  // null: durability is none
  std::unique_ptr<DeadlineDriver> deadlines;
  std::unique_ptr<ThreadPool> writer;  // one thread; runs the functions passed to Aside()
  std::unique_ptr<ThreadPool> saver;   // one thread, with a queue of one snapshot
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
  // Runs `work` on the writer thread and waits for its end. Runs `work` on the calling thread if
  // there is no writer thread.
  void Aside(const std::function<void()>& work) {
    std::promise<void> done;
    const auto run = [&] {
      work();
      done.set_value();
    };
    if (writer == nullptr || !writer->Post(run).ok()) run();
    done.get_future().wait();
  }
  Status OpenPlace(const PserverOptions& options);
  Status OpenStores(const PserverOptions& options);
  // `memory`: shared memory for clients on this host; null: none.
  void MakeShard(const PserverOptions& options, uint64_t incarnation,
                 const std::optional<shm_rpc::ServerMemory>& memory, Metrics& metrics);
  // Closes the shard and fails the calls whose changes could not be written. No call waits after
  // End.
  void End();
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
    if (started.ok()) shm_server = *std::move(started);
    LOG_IF(WARNING, !started.ok())
        << "shared-memory connections are not available: " << started.status().message();
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

namespace {

// Checks the options that need no resources. With mutual TLS, sets `options.job` to the job in the
// certificate.
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
  TD_RETURN_IF_ERROR(CheckExposure(options));
  if (!options.rpc.tls.mutual()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const rpc::PeerIdentity self,
                      rpc::RequireIdentity(options.rpc.tls, rpc::PeerRole::kPserver, options.job));
  options.job = self.job;
  return OkStatus();
}

}  // namespace

Status Pserver::Impl::OpenPlace(const PserverOptions& options) {
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(options.place));
  if (place.kind == PlaceKind::kCpu) return OkStatus();
  auto opened = exec::Backend::For(place);
  if (!opened.ok()) {
    return InvalidArgument("--place=%s cannot be used: %s", options.place,
                           std::string(opened.status().message()));
  }
  slice_backend = *std::move(opened);
  TD_ASSIGN_OR_RETURN(slice_device, slice_backend->MakeDevice(place.index));
  return OkStatus();
}

Status Pserver::Impl::OpenStores(const PserverOptions& options) {
  const std::string index = std::to_string(options.index);
  const auto make = [](const std::string& folder, const std::string& what) {
    TD_RETURN_IF_ERROR(MakeDirs(what + " " + folder, folder));
    return Annotate(MakeOwnDir(folder, OwnRule::kGroup).status(), what);
  };
  if (!options.data_dir.empty()) {
    TD_RETURN_IF_ERROR(make(options.data_dir, "data folder"));
    TD_ASSIGN_OR_RETURN(storage, OpenRocksdbStorage(options.data_dir + "/shard-" + index, &pace));
  } else if (options.durability != Durability::kNone) {
    return InvalidArgument("durability %s needs a directory [TD4012]; hint: set --data_dir=DIR",
                           options.durability == Durability::kLogged ? "logged" : "replayable");
  }
  if (options.table_memory_bytes != 0) {
    TD_RETURN_IF_ERROR(make(options.cold_dir, "cold rows"));
    ColdStoreOptions made{options.cold_dir + "/cold-rows-" + index, options.table_memory_bytes};
    made.on_failure = options.on_failure;
    TD_ASSIGN_OR_RETURN(cold, RocksdbColdStore::Open(made));
  }
  return OkStatus();
}

void Pserver::Impl::MakeShard(const PserverOptions& options, uint64_t incarnation,
                              const std::optional<shm_rpc::ServerMemory>& memory,
                              Metrics& metrics) {
  DurableShard::Options made;
  made.shard.server_incarnation = incarnation;
  made.shard.index = options.index;
  made.shard.job = options.job;
  made.shard.trainers = options.trainers;
  made.shard.checkpoint_every_steps = options.checkpoint_every_steps;
  made.shard.checkpoint_deltas = options.checkpoint_deltas;
  made.shard.on_silent = options.on_silent;
  made.shard.replaces = options.replaces;
  if (memory) made.shard.arena = memory->arena;
  if (slice_device != nullptr) made.shard.slices = {&*slice_backend, slice_device.get()};
  if (cold != nullptr) made.shard.table_memory = {options.table_memory_bytes, cold.get()};
  row_workers = std::make_unique<ForkJoin>("rows", options.threads);
  made.shard.workers = row_workers.get();
  made.logged = options.durability != Durability::kNone;
  made.shard.replayable = options.durability == Durability::kReplayable;
  made.shard.keep_bytes_max = options.keep_bytes_max;
  made.log.sync = options.wal_sync;
  made.log.sync_interval = options.wal_sync_interval;
  made.log.bytes_max = options.log_bytes_max;
  made.log.on_work = [this] { log_driver->Poke(); };
  made.log.on_end = options.on_failure;
  if (storage != nullptr) {
    made.shard.found =
        absl::StrFormat("its directory %s/shard-%d contained no checkpoint at the start",
                        options.data_dir, options.index);
  }
  made.aside = [this](const std::function<void()>& work) { Aside(work); };
  made.pace = &pace;
  made.later = [this](std::function<void()> work) { return saver->Post(std::move(work)); };
  durable = std::make_unique<DurableShard>(std::move(made), storage.get(), clock, backend, device,
                                           metrics);
  if (durable->log() != nullptr) log_driver = std::make_unique<LogFlushThread>(*durable->log());
}

StatusOr<std::unique_ptr<Pserver>> Pserver::Start(PserverOptions options, Metrics& metrics) {
  TD_RETURN_IF_ERROR(CheckOptions(options));
  auto pserver = std::unique_ptr<Pserver>(new Pserver(metrics));
  Impl* impl = pserver->impl_.get();
  const uint64_t incarnation = NewIncarnation();
  const auto shm_memory = options.shm_rpc ? MakeShmRpcMemory() : std::nullopt;
  TD_RETURN_IF_ERROR(impl->OpenPlace(options));
  TD_RETURN_IF_ERROR(impl->OpenStores(options));
  impl->MakeShard(options, incarnation, shm_memory, metrics);
  const Time begin = SteadyNow();
  const StatusOr<uint64_t> restored = impl->durable->Recover();
  if (!restored.ok()) return Annotate(restored.status(), "cannot restore " + options.data_dir);
  LOG_IF(INFO, *restored != 0) << "version " << *restored << " was restored in "
                               << Seconds(SteadyNow() - begin) << " s";
  impl->restored_version = *restored;
  Shard& shard = impl->durable->shard();
  impl->deadlines = std::make_unique<DeadlineDriver>(shard, impl->clock);
  impl->writer = std::make_unique<ThreadPool>("writer", 1, 16);
  TD_RETURN_IF_ERROR(impl->writer->Post(&GiveWay));
  impl->saver = std::make_unique<ThreadPool>("saver", 1, 1);
  impl->pools = std::make_unique<CallPools>(options, metrics);
  impl->calls = std::make_unique<TensorCalls>(incarnation, shard, *impl->deadlines);
  impl->StartShmRpc(shm_memory);
  if (!options.audit_log.empty()) {
    TD_ASSIGN_OR_RETURN(
        impl->audit,
        rpc::AuditLog::Open({options.audit_log, absl::StrFormat("pserver %d", options.index)},
                            impl->clock, metrics));
  }
  rpc::AdmissionLimits limits = rpc::LimitsForThisProcess();
  limits.callers_prove = !options.secret.empty() || options.rpc.tls.mutual();
  options.rpc.admissions = std::make_shared<rpc::Admissions>(limits);
  impl->sessions = std::make_unique<ServerSessions>(options.secret, options.job);
  impl->services = MakePserverServices(
      {options.index, incarnation, impl->sessions.get(), options.rpc.tls.mutual(),
       impl->audit.get(), [impl] { return impl->Invite(); },
       limits.callers_prove ? options.rpc.admissions : nullptr},
      *impl->durable, *impl->calls, impl->call_metrics, impl->pools->Threads(), *impl->deadlines);
  TD_ASSIGN_OR_RETURN(impl->server, rpc::RpcServer::Start(options.rpc, impl->services.All()));
  impl->server->SetServing(true);
  return pserver;
}

void Pserver::Impl::End() {
  if (!hurry) hurry.emplace(&pace, Duration());
  if (durable != nullptr) durable->shard().Shutdown();
  log_driver.reset();
  if (durable != nullptr) durable->Close();
}

Pserver::~Pserver() {
  impl_->End();
  if (impl_->server != nullptr) impl_->server->Stop(SteadyNow());
  // Waits for the worker threads: a handler that has sent its reply may still run and use the
  // service.
  impl_->pools.reset();
}

const Endpoint& Pserver::endpoint() const { return impl_->server->endpoint(); }
ShardInfo Pserver::Info() const { return impl_->durable->shard().Info(); }
Status Pserver::StorageStatus() const { return impl_->durable->StorageStatus(); }
uint64_t Pserver::restored_version() const { return impl_->restored_version; }

StatusOr<SavedCheckpoint> Pserver::SaveCheckpoint() {
  return impl_->durable->Save(false, 0, CheckpointThrottle::kAnswer);
}

void Pserver::GiveUp(Time deadline) {
  impl_->server->SetServing(false);
  impl_->End();
  impl_->server->Stop(deadline);
}

Status Pserver::Drain(Time deadline) {
  impl_->server->SetServing(false);
  Status saved;
  if (impl_->storage != nullptr && Info().initialised) saved = impl_->durable->Save().status();
  impl_->End();
  impl_->server->Stop(deadline);
  return saved;
}

}  // namespace tandem::pserver
