#include "pserver/server_parts.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "pserver/rocksdb/cold_store.h"
#include "pserver/rocksdb/storage_rocksdb.h"
#include "pserver/shard/checkpoint_calls.h"

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

// Number of log entries after which a joining standby gets a new checkpoint.
constexpr uint64_t kCatchUpEntries = 1000;

// Returns a random number that is not 0.
uint64_t RandomNumber() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return number == 0 ? 1 : number;
}

// Makes a directory that only this user and its group may read. `what`: its name in messages.
Status MakeFolder(const std::string& folder, const std::string& what) {
  TD_RETURN_IF_ERROR(MakeDirs(what + " " + folder, folder));
  return Annotate(MakeOwnDir(folder, OwnRule::kGroup).status(), what);
}

}  // namespace

StatusOr<std::unique_ptr<ServerParts>> ServerParts::Open(const PserverOptions& options,
                                                         Metrics& metrics) {
  std::unique_ptr<ServerParts> parts(new ServerParts(options, metrics));
  if (options.shm_rpc) parts->shm_memory_ = MakeShmRpcMemory();
  TD_RETURN_IF_ERROR(parts->OpenPlace());
  TD_RETURN_IF_ERROR(parts->OpenStores());
  parts->row_workers_ = std::make_unique<ForkJoin>("rows", options.calls.others);
  parts->writer_ = std::make_unique<ThreadPool>("writer", 1, 16);
  TD_RETURN_IF_ERROR(parts->writer_->Post(&GiveWay));
  parts->saver_ = std::make_unique<ThreadPool>("saver", 1, 1);
  if (options.durability == Durability::kLogged) {
    LogSource::Options source{.standbys = options.standbys, .member = options.member};
    ServerParts* const self = parts.get();
    source.on_replicated = [self](uint64_t number) { self->durable_->log()->Replicated(number); };
    source.save = [self] { return self->durable_->Save().status(); };
    source.outdated = [self] {
      const uint64_t stored = self->durable_->shard().checkpoints().stored_number();
      return self->durable_->log()->written() > stored + kCatchUpEntries;
    };
    parts->source_ =
        std::make_unique<LogSource>(std::move(source), *parts->storage_, parts->clock_);
    parts->terms_ = std::make_unique<TermKeeper>(
        TermKeeper::Options{options.standbys, &RandomNumber, options.replication}, *parts->storage_,
        *parts->source_);
  }
  parts->MakeShard();
  return parts;
}

ServerParts::ServerParts(const PserverOptions& options, Metrics& metrics)
    : options_(options), incarnation_(RandomNumber()), metrics_(metrics) {}

ServerParts::~ServerParts() { End(); }

Status ServerParts::OpenPlace() {
  TD_ASSIGN_OR_RETURN(const Place place, ParsePlace(options_.place));
  if (place.kind == PlaceKind::kCpu) return OkStatus();
  auto opened = exec::Backend::For(place);
  if (!opened.ok()) {
    return InvalidArgument("--place=%s cannot be used: %s", options_.place,
                           std::string(opened.status().message()));
  }
  slice_backend_ = *std::move(opened);
  TD_ASSIGN_OR_RETURN(slice_device_, slice_backend_->MakeDevice(place.index));
  return OkStatus();
}

Status ServerParts::OpenStores() {
  if (options_.standbys != 0 && options_.durability != Durability::kLogged) {
    return InvalidArgument(
        "standbys need durability logged, because they receive the write-ahead log [TD4028]; "
        "hint: set --durability=logged");
  }
  if (!options_.data_dir.empty()) {
    TD_RETURN_IF_ERROR(MakeFolder(options_.data_dir, "data folder"));
    TD_ASSIGN_OR_RETURN(
        storage_,
        OpenRocksdbStorage(absl::StrFormat("%s/shard-%d", options_.data_dir, options_.index),
                           &pace_, {.log_keep_bytes = options_.log_keep_bytes}));
  } else if (options_.durability != Durability::kNone) {
    return InvalidArgument("durability %s needs a directory [TD4012]; hint: set --data_dir=DIR",
                           options_.durability == Durability::kLogged ? "logged" : "replayable");
  }
  return OpenColdStore();
}

Status ServerParts::OpenColdStore() {
  if (options_.table_memory_bytes == 0) return OkStatus();
  TD_RETURN_IF_ERROR(MakeFolder(options_.cold_dir, "cold rows"));
  std::string dir = absl::StrFormat("%s/cold-rows-%d", options_.cold_dir, options_.index);
  if (options_.member != 0) absl::StrAppendFormat(&dir, "-%d", options_.member);
  ColdStoreOptions made{dir, options_.table_memory_bytes};
  made.on_failure = options_.on_failure;
  TD_ASSIGN_OR_RETURN(cold_, RocksdbColdStore::Open(made));
  return OkStatus();
}

void ServerParts::MakeShard() {
  TD_REQUIRE(durable_ == nullptr && log_driver_ == nullptr);
  DurableShard::Options made;
  made.shard.server_incarnation = incarnation_;
  made.shard.index = options_.index;
  made.shard.job = options_.job;
  made.shard.trainers = options_.trainers;
  made.shard.checkpoint_every_steps = options_.checkpoint_every_steps;
  made.shard.checkpoint_deltas = options_.checkpoint_deltas;
  made.shard.on_silent = options_.on_silent;
  made.shard.replaces = options_.replaces;
  if (shm_memory_) made.shard.arena = shm_memory_->arena;
  if (slice_device_ != nullptr) made.shard.slices = {&*slice_backend_, slice_device_.get()};
  if (cold_ != nullptr) made.shard.table_memory = {options_.table_memory_bytes, cold_.get()};
  if (options_.durability == Durability::kLogged) {
    made.shard.table_memory.changed_rows = options_.changed_rows_max;
  }
  made.shard.workers = row_workers_.get();
  made.logged = options_.durability != Durability::kNone;
  made.logs_snapshots = options_.standbys != 0;
  // Without standbys, nothing would ever end the wait for them (WhenSafeToLeave).
  if (options_.standbys != 0) made.shard.replication = options_.replication;
  made.shard.replayable = options_.durability == Durability::kReplayable;
  made.shard.keep_bytes_max = options_.keep_bytes_max;
  made.log.sync = options_.wal_sync.when;
  made.log.sync_interval = options_.wal_sync.interval;
  made.log.bytes_max = options_.log_bytes_max;
  made.keep = options_.snapshot_keep;
  made.log.on_work = [this] { log_driver_->Poke(); };
  made.log.on_end = options_.on_failure;
  if (storage_ != nullptr) {
    made.shard.found =
        absl::StrFormat("its directory %s/shard-%d contained no checkpoint at the start",
                        options_.data_dir, options_.index);
  }
  made.aside = [this](const std::function<void()>& work) { Aside(work); };
  made.pace = &pace_;
  made.later = [this](std::function<void()> work) { return saver_->Post(std::move(work)); };
  if (source_ != nullptr) {
    made.log.on_written = [this](std::span<const LogEntry> entries) { OnWritten(entries); };
    made.on_first_stored = [this] {
      const bool waits = options_.standbys != 0 && options_.replication == Replication::kQuorum;
      if (waits) durable_->log()->AwaitStandbys();
    };
    made.on_restore_begin = [this] { return terms_->OnRestoreBegin(); };
    made.on_restore_end = [this](DurableShard::RestoreEnd end) {
      return terms_->OnRestoreEnd(end != DurableShard::RestoreEnd::kUnchanged,
                                  end == DurableShard::RestoreEnd::kStored, Log());
    };
  }
  durable_ = std::make_unique<DurableShard>(std::move(made), storage_.get(), clock_, backend_,
                                            device_, metrics_);
  if (durable_->log() != nullptr) log_driver_ = std::make_unique<LogFlushThread>(*durable_->log());
}

// A standby and a replica have a source too, which has no term.
void ServerParts::OnWritten(std::span<const LogEntry> entries) {
  if (source_->term().history != 0) source_->OnWritten(entries);
}

void ServerParts::Aside(const std::function<void()>& work) {
  std::promise<void> done;
  const auto run = [&] {
    work();
    done.set_value();
  };
  if (!writer_->Post(run).ok()) run();
  done.get_future().wait();
}

StatusOr<uint64_t> ServerParts::Recover() { return durable_->Recover(); }

Status ServerParts::MakeEmptyShard() {
  TD_REQUIRE(source_ != nullptr && source_->term().history == 0);
  EndShard();
  saver_ = std::make_unique<ThreadPool>("saver", 1, 1);  // ends the work that uses the old shard
  durable_.reset();
  terms_->OnEmptyShard();
  cold_.reset();
  TD_RETURN_IF_ERROR(OpenColdStore());
  MakeShard();
  return OkStatus();
}

Status ServerParts::BeginReplication(LogTerm term,
                                     std::optional<LogSource::Predecessor> predecessor) {
  TD_REQUIRE(terms_ != nullptr);
  return terms_->Begin(term, predecessor, Log());
}

Status ServerParts::ResumeReplication() {
  TD_REQUIRE(terms_ != nullptr);
  return terms_->Resume(Log());
}

TermKeeper::Log ServerParts::Log() {
  return {*durable_->log(), durable_->shard().Info().initialised};
}

Status ServerParts::AwaitLogged() {
  std::promise<Status> written;
  durable_->log()->WhenLogged([&written](const Status& status) { written.set_value(status); });
  return written.get_future().get();
}

void ServerParts::End() {
  if (!hurry_) hurry_.emplace(&pace_, Duration());
  if (source_ != nullptr) source_->Close();
  EndShard();
}

void ServerParts::EndShard() {
  if (durable_ != nullptr) durable_->shard().Shutdown();
  log_driver_.reset();
  if (durable_ != nullptr) durable_->Close();
}

}  // namespace tandem::pserver
