// A whole parameter server: shard, worker threads, storage and gRPC server. What `tandem-pserver`
// runs, and what tests run several of in one process. No gRPC in this header.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/rpc/server.h"
#include "pserver/state/shard_types.h"
#include "pserver/state/wal.h"

namespace tandem {

enum class Durability : uint8_t {
  kNone,        // what came after the last checkpoint is lost with the process
  kReplayable,  // ... unless the trainers who pushed it live: they keep it until then
  kLogged       // nothing that was acknowledged is lost
};
// "none", "replayable", "logged".
StatusOr<Durability> ParseDurability(const std::string& text);

struct PserverOptions {
  // With mutual TLS the certificate must be one for a pserver, of `job` or (job "") of the job that
  // is served then, and callers may what their role may (pserver/service/access.h).
  ServerOptions rpc;
  int index = 0;                        // which server of the job
  std::string job;                      // "": serves the first job that configures it
  int trainers = 0;                     // 0: as the first trainer says
  std::string secret;                   // empty: none is asked for. REQUIRES a job otherwise.
  std::string data_dir;                 // "": no checkpoints; else <data_dir>/shard-<index>
  uint64_t checkpoint_every_steps = 0;  // 0: only when told, and at the end
  int checkpoint_deltas = 0;            // of these, deltas behind each whole one
  // What an acknowledged push survives. kLogged (REQUIRES data_dir): the death of the server, by an
  // update log behind the checkpoint. kReplayable (REQUIRES data_dir): the same while its trainer
  // lives, by a log of orders and what trainers keep.
  Durability durability = Durability::kNone;
  WalSync wal_sync = WalSync::kInterval;  // kLogged: and when that of the machine
  Duration wal_sync_interval = std::chrono::milliseconds(100);
  // Then a checkpoint is written. kReplayable: of what trainers keep, too.
  uint64_t log_bytes_max = uint64_t{256} << 20;
  uint64_t keep_bytes_max = uint64_t{1} << 30;  // kReplayable: a trainer keeps no more, and waits
  // Memory for the rows of all tables (row_tiers.h); 0: without bound. Rows beyond it lie in
  // <cold_dir>/cold-rows-<index>, which is emptied at the start.
  uint64_t table_memory_bytes = 0;
  std::string cold_dir = "database";
  // Shard::Options's.
  std::function<void(int trainer, Duration silent)> on_silent;
  bool replaces = false;
  std::string audit_log;  // every call is noted in this file (audit_log.h); "": nowhere
  // Threads for pushes, pulls, and pulls of rows alone that come by gRPC (rpc_send_thread_num,
  // rpc_get_thread_num, rpc_prefetch_thread_num of proto/strategy.proto); and for other calls.
  int push_threads = 12, pull_threads = 12, row_pull_threads = 12;
  int threads = 2;
  size_t queue_max = 1024;  // calls that may wait for a thread of theirs; more are refused
  // Where dense slices lie and are updated: "cpu", "cuda", "cuda:1". Rows of tables are in host
  // memory, whatever this is.
  std::string place = "cpu";
  bool lanes = true;  // shared memory for clients on this host
  // The store failed, so that nothing more is acknowledged. To be ended (Pserver::GiveUp): its
  // successor reads what the folder holds. On any thread, perhaps more than once; must not block.
  std::function<void(const Status&)> on_failure;
  ShardBug bug = ShardBug::kNone;  // for tests
};

// Thread-safe.
class Pserver {
 public:
  // Restores the checkpoint of data_dir when there is one, then listens. FAILED_PRECONDITION when
  // the checkpoint is of another job; DATA_LOSS when it is damaged. `metrics` must outlive the
  // server.
  static StatusOr<std::unique_ptr<Pserver>> Start(PserverOptions options, Metrics& metrics);
  ~Pserver();  // Stop(now), without a checkpoint

  const Endpoint& endpoint() const;
  // What the server holds and who has called it.
  ShardInfo Info() const;
  // OK, or why it takes no pushes, or (without a log) wrote no checkpoint.
  Status StorageStatus() const;
  // The version that was restored at start; 0 when none.
  uint64_t restored_version() const;

  // Version and bytes. FAILED_PRECONDITION without a data folder or before the first values.
  StatusOr<std::pair<uint64_t, size_t>> SaveCheckpoint();
  // Not serving any more; saves a checkpoint when there is a data folder and something to save;
  // answers those who wait with UNAVAILABLE; ends calls in progress until `deadline`.
  Status Drain(Time deadline);
  // After PserverOptions::on_failure: answers those who wait, with the failure where it concerns
  // them; ends calls in progress until `deadline`.
  void GiveUp(Time deadline);

 private:
  explicit Pserver(Metrics& metrics);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
