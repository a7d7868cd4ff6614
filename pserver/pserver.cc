#include "pserver/pserver.h"

#include <grpcpp/impl/codegen/service_type.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/base/runner.h"
#include "common/lane/lane_server.h"
#include "proto/pserver.pb.h"
#include "pserver/call_metrics.h"
#include "pserver/cold_rows.h"
#include "pserver/deadline_driver.h"
#include "pserver/group_log.h"
#include "pserver/service.h"
#include "pserver/shard.h"
#include "pserver/storage.h"
#include "pserver/tensor_calls.h"

namespace tandem {
namespace {

// Of everything that clients on this host read in place. Pages that nobody touches take none.
constexpr size_t kLaneMemoryBytes = size_t{32} << 30;

std::optional<LaneMemory> MakeLaneMemory() {
  StatusOr<LaneMemory> memory = LaneMemory::Make(kLaneMemoryBytes);
  if (memory.ok()) return *std::move(memory);
  LOG(WARNING) << "no lanes: " << memory.status().message();
  return std::nullopt;
}

// The calling thread takes what others leave: nobody waits for a checkpoint as for a push.
void GiveWay() {
  constexpr int kNice = 10;
  const bool lowered = setpriority(PRIO_PROCESS, 0, kNice) == 0;  // of the thread, on Linux
  LOG_IF(WARNING, !lowered) << "priority of the writer: " << ErrnoText(errno);
}

// Encryption alone keeps nobody out.
Status CheckExposure(const PserverOptions& options) {
  const bool knows_callers = options.rpc.tls.mutual() || !options.secret.empty();
  if (knows_callers || !options.rpc.tls.enabled() || IsLoopback(options.rpc.listen) ||
      options.rpc.insecure_allow_network) {
    return OkStatus();
  }
  return PermissionDenied(
      "listening on %s for anybody: give tls_ca, so that callers must show a certificate, or a "
      "secret, or allow it with insecure_allow_network",
      ToString(options.rpc.listen));
}

uint64_t NewIncarnation() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return number == 0 ? 1 : number;
}

}  // namespace

// Members are destroyed from the last to the first: the server before what its handlers use.
struct Pserver::Impl {
  explicit Impl(Metrics& metrics)
      : call_metrics(metrics),
        checkpoint_seconds(metrics.GetHistogram("tandem_pserver_checkpoint_seconds",
                                                "Time to write a checkpoint",
                                                {1e-3, 1e-2, 0.1, 1, 10, 100})),
        checkpoint_time(metrics.GetGauge(
            "tandem_pserver_checkpoint_timestamp_seconds",
            "When the last checkpoint was written or read, in Unix time; 0: never")) {}

  CallMetrics call_metrics;
  Histogram& checkpoint_seconds;
  Gauge& checkpoint_time;
  RealClock clock;
  CpuDevice device;
  Backend backend = Backend::Cpu();
  std::unique_ptr<Storage> storage;  // null: no data folder
  std::atomic<uint64_t> checkpoint_version{0};
  uint64_t restored_version = 0;
  std::unique_ptr<GroupLog> log;    // null: durability none
  std::unique_ptr<ColdStore> cold;  // null: all rows are in memory
  std::unique_ptr<Shard> shard;
  std::unique_ptr<DeadlineDriver> deadlines;
  std::unique_ptr<ThreadPool> writer;  // one thread, which writes images
  std::unique_ptr<ThreadPool> saver;   // one thread, one waiting image
  std::unique_ptr<ThreadPool> workers;
  std::unique_ptr<TensorCalls> calls;
  std::unique_ptr<LaneServer> lanes;  // null: this machine gives no shared memory
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<RpcServer> server;

  LaneAnswer Counted(PserverCall call, LaneAnswer answer) {
    return [finish = call_metrics.Begin(call), answer = std::move(answer)](const Status& status,
                                                                           EncodedMessage message) {
      finish(status);
      answer(status, std::move(message));
    };
  }
  // `memory`: null where there is none.
  void StartLanes(const std::optional<LaneMemory>& memory) {
    if (!memory) return;
    StatusOr<std::unique_ptr<LaneServer>> started =
        LaneServer::Start(*memory, [this](uint32_t method, Fragments request, LaneAnswer answer) {
          switch (method) {
            case LANE_METHOD_PUSH:
              return calls->Push(request, Counted(PserverCall::kPush, std::move(answer)));
            case LANE_METHOD_PULL:
              return calls->Pull(request, Counted(PserverCall::kPull, std::move(answer)));
            default:
              answer(Unimplemented("a lane has no method %d", method), {});
          }
        });
    if (started.ok()) lanes = *std::move(started);
    LOG_IF(WARNING, !started.ok()) << "no lanes: " << started.status().message();
  }
  StatusOr<LaneInvitation> Invite() {
    if (lanes == nullptr) return Unimplemented("this server has no lanes");
    return lanes->Invite();
  }
  // The checkpoint on disk is that of `version`, and what is served no older.
  void Keeps(uint64_t version) {
    checkpoint_version = version;
    checkpoint_time.SetToCurrentTime();
  }
  StatusOr<std::pair<uint64_t, size_t>> Write(const ShardImage& image) {
    const Time begin = clock.Now();
    TD_ASSIGN_OR_RETURN(const size_t bytes, storage->Write(image));
    checkpoint_seconds.Observe(Seconds(clock.Now() - begin));
    Keeps(image.version);
    return std::make_pair(image.version, bytes);
  }
  StatusOr<std::pair<uint64_t, size_t>> Save() {
    if (storage == nullptr) {
      return FailedPrecondition("no checkpoints: this server was started without a data folder");
    }
    TD_ASSIGN_OR_RETURN(const ShardImage image, shard->Image());
    return WriteAside(image);
  }
  // Write on a thread that gives way to those that serve.
  StatusOr<std::pair<uint64_t, size_t>> WriteAside(const ShardImage& image) {
    std::promise<StatusOr<std::pair<uint64_t, size_t>>> written;
    const bool posted =
        writer != nullptr && writer->Post([&] { written.set_value(Write(image)); }).ok();
    return posted ? written.get_future().get() : Write(image);
  }
  StatusOr<uint64_t> Restore() {
    if (storage == nullptr) {
      return FailedPrecondition("no checkpoints: this server was started without a data folder");
    }
    TD_ASSIGN_OR_RETURN(const std::optional<ShardImage> image, storage->Read());
    if (!image) return NotFound("there is no checkpoint");
    TD_RETURN_IF_ERROR(shard->Restore(*image));
    Keeps(image->version);
    // What the log holds is behind us: a new checkpoint drops it.
    if (log != nullptr) TD_RETURN_IF_ERROR(Save().status());
    return image->version;
  }
  // The state at the start: the checkpoint, and what the log has behind it. A log is read whether
  // or not this server goes on with it. 0 when there is nothing.
  StatusOr<uint64_t> Recover() {
    TD_ASSIGN_OR_RETURN(const std::optional<ShardImage> image, storage->Read());
    // Without the first values nothing was acknowledged.
    if (!image) {
      TD_RETURN_IF_ERROR(storage->ClearLog());
      return uint64_t{0};
    }
    TD_RETURN_IF_ERROR(shard->Restore(*image));
    Keeps(image->version);
    uint64_t entries = 0;
    TD_RETURN_IF_ERROR(storage->ReadLog(image->log_number, [&](LogEntry entry) {
      ++entries;
      return shard->Replay(std::move(entry));
    }));
    const uint64_t version = shard->Info().version;
    LOG_IF(INFO, entries != 0) << "checkpoint of version " << image->version << " and " << entries
                               << " entries of the update log: version " << version;
    // Without a log what follows would not fit behind the old entries.
    if (log == nullptr && entries != 0) TD_RETURN_IF_ERROR(Save().status());
    return version;
  }
  void SaveLater(ShardImage image) {
    const uint64_t version = image.version;
    auto shared = std::make_shared<ShardImage>(std::move(image));
    const Status posted = saver->Post([this, shared] {
      if (const auto written = WriteAside(*shared); !written.ok()) {
        LOG(ERROR) << "checkpoint of version " << shared->version
                   << " failed: " << ToString(written.status());
      }
    });
    if (!posted.ok()) {
      LOG(WARNING) << "checkpoint of version " << version
                   << " left out: the one before is still being written";
    }
  }
};

StatusOr<Durability> ParseDurability(const std::string& text) {
  if (text == "none") return Durability::kNone;
  if (text == "logged") return Durability::kLogged;
  if (text == "replayable") {
    return Unimplemented("durability replayable is not built yet; none and logged are");
  }
  return InvalidArgument("durability \"%s\"; expected none or logged", text);
}

Pserver::Pserver(Metrics& metrics) : impl_(std::make_unique<Impl>(metrics)) {}

namespace {

// What can be said before anything is opened; with mutual TLS the job is that of the certificate.
Status CheckOptions(PserverOptions& options) {
  if (!options.secret.empty() && options.job.empty()) {
    return InvalidArgument("a server with a secret needs the job's name: tokens belong to a job");
  }
  if (options.threads < 1 || options.threads > 1024) {
    return InvalidArgument("%d threads; expected 1 to 1024", options.threads);
  }
  TD_RETURN_IF_ERROR(CheckExposure(options));
  if (!options.rpc.tls.mutual()) return OkStatus();
  TD_ASSIGN_OR_RETURN(const PeerIdentity self,
                      RequireIdentity(options.rpc.tls, PeerRole::kPserver, options.job));
  options.job = self.job;
  return OkStatus();
}

}  // namespace

StatusOr<std::unique_ptr<Pserver>> Pserver::Start(PserverOptions options, Metrics& metrics) {
  TD_RETURN_IF_ERROR(CheckOptions(options));
  auto pserver = std::unique_ptr<Pserver>(new Pserver(metrics));
  Impl* impl = pserver->impl_.get();
  const uint64_t incarnation = NewIncarnation();
  Shard::Options shard{incarnation, options.job, options.trainers, 0, nullptr};
  const auto lane_memory = options.lanes ? MakeLaneMemory() : std::nullopt;
  if (lane_memory) shard.arena = lane_memory->arena;
  if (!options.data_dir.empty()) {
    TD_ASSIGN_OR_RETURN(impl->storage, OpenRocksdbStorage(options.data_dir + "/shard-" +
                                                          std::to_string(options.index)));
    shard.checkpoint_every_steps = options.checkpoint_every_steps;
    shard.on_checkpoint = [impl](ShardImage image) { impl->SaveLater(std::move(image)); };
  }
  if (options.table_memory_bytes != 0) {
    TD_ASSIGN_OR_RETURN(impl->cold, ColdStore::Open({options.cold_dir + "/cold-rows-" +
                                                         std::to_string(options.index),
                                                     options.table_memory_bytes}));
    shard.table_memory = {options.table_memory_bytes, impl->cold.get()};
  }
  shard.bug = options.bug;
  if (options.durability == Durability::kLogged) {
    if (impl->storage == nullptr) return InvalidArgument("durability logged needs a data folder");
    const auto save = [impl] {
      const Status posted = impl->saver->Post([impl] {
        if (const auto saved = impl->Save(); !saved.ok()) {
          LOG(ERROR) << "checkpoint: " << ToString(saved.status());
        }
      });
      LOG_IF(WARNING, !posted.ok()) << "checkpoint left out: " << ToString(posted);
    };
    impl->log = std::make_unique<GroupLog>(
        GroupLogOptions{options.wal_sync, options.wal_sync_interval, options.log_bytes_max, save},
        *impl->storage, metrics);
    shard.log = impl->log.get();
    shard.keep_first = [impl](const ShardImage& image) { return impl->Write(image).status(); };
  }
  impl->shard =
      std::make_unique<Shard>(std::move(shard), impl->clock, impl->backend, impl->device, metrics);
  if (impl->storage != nullptr) {
    const StatusOr<uint64_t> restored = impl->Recover();
    if (!restored.ok()) {
      return Annotate(restored.status(), "restoring from " + options.data_dir);
    }
    impl->restored_version = *restored;
  }
  impl->deadlines = std::make_unique<DeadlineDriver>(*impl->shard);
  impl->writer = std::make_unique<ThreadPool>("writer", 1, 16);
  TD_RETURN_IF_ERROR(impl->writer->Post(&GiveWay));
  impl->saver = std::make_unique<ThreadPool>("saver", 1, 1);
  impl->workers = std::make_unique<ThreadPool>("worker", options.threads, options.queue_max);
  impl->calls = std::make_unique<TensorCalls>(incarnation, *impl->shard, *impl->deadlines);
  impl->StartLanes(lane_memory);
  impl->service = MakePserverService(
      {options.index, incarnation, options.secret, options.rpc.tls.mutual(),
       [impl] { return impl->checkpoint_version.load(); }, [impl] { return impl->Save(); },
       [impl] { return impl->Restore(); }, [impl] { return impl->Invite(); }},
      *impl->shard, *impl->calls, impl->call_metrics, *impl->workers, *impl->deadlines);
  TD_ASSIGN_OR_RETURN(impl->server, RpcServer::Start(options.rpc, {impl->service.get()}));
  impl->server->SetServing(true);
  return pserver;
}

Pserver::~Pserver() {
  if (impl_->shard != nullptr) impl_->shard->Shutdown();
  // Those whose change could not be written are told so; then nobody waits any more.
  if (impl_->log != nullptr) impl_->log->Close();
  if (impl_->server != nullptr) impl_->server->Stop(SteadyNow());
  // A handler whose call has been answered may still be on its way out of the service.
  impl_->workers.reset();
}

const Endpoint& Pserver::endpoint() const { return impl_->server->endpoint(); }
ShardInfo Pserver::Info() const { return impl_->shard->Info(); }
uint64_t Pserver::restored_version() const { return impl_->restored_version; }

StatusOr<std::pair<uint64_t, size_t>> Pserver::SaveCheckpoint() { return impl_->Save(); }

Status Pserver::Drain(Time deadline) {
  impl_->server->SetServing(false);
  Status saved;
  if (impl_->storage != nullptr && impl_->shard->Info().initialised) {
    saved = impl_->Save().status();
  }
  impl_->shard->Shutdown();
  if (impl_->log != nullptr) impl_->log->Close();
  impl_->server->Stop(deadline);
  return saved;
}

}  // namespace tandem
