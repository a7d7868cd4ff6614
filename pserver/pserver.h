// A complete parameter server: shard, worker threads, storage and gRPC server. `tandem-pserver`
// runs one; tests run several in one process. This header does not include gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/rpc/server.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

enum class Durability : uint8_t {
  kNone,  // changes after the last checkpoint are lost with the process
  // Like kNone, but trainers keep their pushes until a checkpoint contains them. A push is lost
  // only if its trainer is lost too.
  kReplayable,
  kLogged  // no acknowledged push is lost
};
// "none", "replayable", "logged".
StatusOr<Durability> ParseDurability(const std::string& text);

struct PserverOptions {
  // If mutual TLS is used, the certificate must be for a pserver of `job` (job "": it determines
  // the job). Callers may make the calls of their role (pserver/service/access.h).
  rpc::ServerOptions rpc;
  int index = 0;                        // server index in the job
  std::string job;                      // "": serves the first job that configures it
  int trainers = 0;                     // 0: as configured by the first trainer
  std::string secret;                   // empty: no secret is required; otherwise REQUIRES a job
  std::string data_dir;                 // "": no checkpoints; else <data_dir>/shard-<index>
  uint64_t checkpoint_every_steps = 0;  // 0: only on request, and at the end
  int checkpoint_deltas = 0;            // number of deltas after each full checkpoint
  // The failures that an acknowledged push survives. kLogged (REQUIRES data_dir): the death of the
  // server, by a WAL in addition to the checkpoint. kReplayable (REQUIRES data_dir): the same while
  // its trainer lives, by a log of the order and the values that trainers keep.
  Durability durability = Durability::kNone;
  WalSync wal_sync = WalSync::kInterval;  // kLogged: sync policy against the death of the machine
  Duration wal_sync_interval = std::chrono::milliseconds(100);
  // Log size at which a checkpoint is written. kReplayable: includes the values that trainers keep.
  uint64_t log_bytes_max = uint64_t{256} << 20;
  uint64_t keep_bytes_max = uint64_t{1} << 30;  // kReplayable: limit per trainer, which then waits
  // Memory for the rows of all tables (row_tiers.h); 0: unlimited. Further rows are in
  // <cold_dir>/cold-rows-<index>, which is emptied at the start.
  uint64_t table_memory_bytes = 0;
  std::string cold_dir = "database";
  // As in Shard::Options.
  std::function<void(int trainer, Duration silent)> on_silent;
  bool replaces = false;
  std::string audit_log;  // every call is recorded in this file (audit_log.h); "": none
  // Threads for pushes, pulls, and pulls of rows only, by gRPC (rpc_send_thread_num,
  // rpc_get_thread_num, rpc_prefetch_thread_num of proto/strategy.proto); and for other calls.
  int push_threads = 12, pull_threads = 12, row_pull_threads = 12;
  int threads = 2;
  // Calls that may wait for a thread of each kind; further calls are rejected.
  size_t queue_max = 1024;
  // Device of dense slices and their updates: "cpu", "cuda", "cuda:1". Rows of tables are always in
  // host memory.
  std::string place = "cpu";
  bool shm_rpc = true;  // shared memory for clients on this host
  // Called when the store has failed and nothing more is acknowledged. The process must then end
  // (Pserver::GiveUp); its successor reads the contents of the directory. May be called on any
  // thread and more than once; must not block.
  std::function<void(const Status&)> on_failure;
};

// Thread-safe.
class Pserver {
 public:
  // Restores the checkpoint of data_dir if there is one, then listens. FAILED_PRECONDITION: the
  // checkpoint is of another job. DATA_LOSS: it is damaged. `metrics` must outlive the server.
  static StatusOr<std::unique_ptr<Pserver>> Start(PserverOptions options, Metrics& metrics);
  ~Pserver();  // stops immediately, without a checkpoint

  const Endpoint& endpoint() const;
  // The contents of the server and its callers.
  ShardInfo Info() const;
  // OK, or the reason why it rejects pushes or (without a log) wrote no checkpoint.
  Status StorageStatus() const;
  // Version restored at the start; 0: none.
  uint64_t restored_version() const;

  // FAILED_PRECONDITION: no data directory, or no initial values yet.
  StatusOr<SavedCheckpoint> SaveCheckpoint();
  // Stops serving. Saves a checkpoint if there is a data directory and something to save. Fails
  // waiting calls with UNAVAILABLE and ends calls in progress by `deadline`.
  Status Drain(Time deadline);
  // Call after PserverOptions::on_failure. Fails waiting calls, with the failure if it concerns
  // them, and ends calls in progress by `deadline`.
  void GiveUp(Time deadline);

 private:
  explicit Pserver(Metrics& metrics);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
