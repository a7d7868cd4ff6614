// A complete parameter server: shard, worker threads, storage and gRPC server. The program
// tandem-pserver runs one server. Tests run several servers in one process. This header does not
// include gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/keep_rules.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/rpc/server.h"
#include "pserver/replication/log_source.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

enum class Durability : uint8_t {
  kNone,  // changes since the last checkpoint are lost if the process dies
  // Like kNone, but trainers keep their pushes until a checkpoint contains the pushes. A push is
  // lost only if both the server and the trainer of the push die.
  kReplayable,
  kLogged  // no acknowledged push is lost
};
// Parses "none", "replayable" or "logged".
StatusOr<Durability> ParseDurability(const std::string& text);

// The threads that handle calls.
struct CallThreads {
  // Numbers of threads for pushes, for pulls, and for pulls of rows only (rpc_send_thread_num,
  // rpc_get_thread_num, rpc_prefetch_thread_num of proto/strategy.proto).
  int pushes = 12, pulls = 12, row_pulls = 12;
  int others = 2;  // number of threads for all other calls
  // Maximum number of calls of each kind that wait for a thread. The server rejects further calls.
  size_t queue_max = 1024;
};

// When the write-ahead log is synced to the disk.
struct LogSync {
  WalSync when = WalSync::kInterval;
  Duration interval = std::chrono::milliseconds(100);  // with kInterval
};

struct PserverOptions {
  // With mutual TLS, the certificate must be for a pserver of `job`. If `job` is "", the
  // certificate determines the job. A caller may make only the calls of its role
  // (pserver/service/access.h).
  rpc::ServerOptions rpc;
  int index = 0;         // index of the server in the job
  std::string job;       // name of the job; "": the server serves the first job that configures it
  int trainers = 0;      // number of trainers; 0: the number that the first trainer configures
  std::string secret;    // the job's secret, only together with `job`; "": callers need no secret
  std::string data_dir;  // checkpoints are in <data_dir>/shard-<index>; "": no checkpoints
  // Number of steps between checkpoints; 0: only on request, and in Drain.
  uint64_t checkpoint_every_steps = 0;
  int checkpoint_deltas = 0;  // number of delta checkpoints after each full checkpoint
  // The failures that an acknowledged push survives. kLogged (needs data_dir): the death of the
  // server, because a WAL is kept in addition to the checkpoint. kReplayable (needs data_dir): the
  // death of the server while the trainer of the push lives. The log then has only the order of the
  // pushes, and the trainers keep the values.
  Durability durability = Durability::kNone;
  // With kLogged: when the WAL is synced. Synced pushes survive the death of the machine.
  LogSync wal_sync;
  // Size of the log in bytes at which a checkpoint is written. With kReplayable, the size includes
  // the values of the pushes that trainers keep.
  uint64_t log_bytes_max = uint64_t{256} << 20;
  // With kReplayable: maximum bytes of the sent pushes that a trainer keeps for a replay. A push
  // that would exceed the maximum waits until the trainer has dropped pushes of earlier steps.
  uint64_t keep_bytes_max = uint64_t{1} << 30;
  // Number of standby servers; 0: none. Needs kLogged (docs/internals/replication.md).
  int standbys = 0;
  // With standbys: when a push is acknowledged.
  Replication replication = Replication::kQuorum;
  // Number of this process among the server's primary and standbys, from 0 to `standbys`.
  int member = 0;
  // Limit of the memory for the rows of all tables in bytes (row_tiers.h); 0: unlimited. Rows
  // beyond the limit are in the directory <cold_dir>/cold-rows-<index> (and "-<member>" for members
  // other than 0), which the server empties at its start.
  uint64_t table_memory_bytes = 0;
  std::string cold_dir = "database";
  // Bytes of the log that stay on the disk although a checkpoint contains them, for the history of
  // rows and for the restore of a step; 0: none.
  uint64_t log_keep_bytes = 0;
  KeepRules snapshot_keep;  // the global snapshots that stay in data_dir (global-snapshot.md)
  // With kLogged: maximum number of changed rows that each table remembers for readers of the
  // change stream, 8 bytes each. A reader that has fallen further back gets all rows again.
  size_t changed_rows_max = size_t{4} << 20;
  // `on_silent` and `replaces`: see ShardOptions.
  std::function<void(int trainer, Duration silent)> on_silent;
  bool replaces = false;
  std::string audit_log;  // file in which every call is recorded (audit_log.h); "": none
  CallThreads calls;
  // Device of the dense slices and their updates: "cpu", "cuda", "cuda:1". Rows of tables are
  // always in host memory.
  std::string place = "cpu";
  bool shm_rpc = true;  // whether clients on this host may use shared memory
  // Address at which Redis clients may read (pserver/resp/README.md); nullopt: none.
  std::optional<Endpoint> resp_listen;
  // Called when the storage has failed. From then on, the server acknowledges no change. The
  // process must call Pserver::GiveUp and exit. The next process recovers from data_dir. May be
  // called on any thread and more than once; must not block.
  std::function<void(const Status&)> on_failure;
};

class ServerParts;

// Checks the options that need no resources. With mutual TLS, sets `options.job` to the job in the
// certificate. INVALID_ARGUMENT, PERMISSION_DENIED: the message names the option.
Status CheckOptions(PserverOptions& options);

// One running parameter server. Thread-safe.
class Pserver {
 public:
  // Restores the checkpoint in data_dir if there is one, then listens. FAILED_PRECONDITION: the
  // checkpoint is of another job. DATA_LOSS: the checkpoint is damaged. `metrics` must outlive the
  // server.
  static StatusOr<std::unique_ptr<Pserver>> Start(PserverOptions options, Metrics& metrics);
  // Serves the state of `parts`, a promoted standby (standby.h). `options`: those of the parts.
  static StatusOr<std::unique_ptr<Pserver>> Serve(PserverOptions options,
                                                  std::unique_ptr<ServerParts> parts,
                                                  Metrics& metrics);
  ~Pserver();  // stops the server immediately, without a checkpoint

  const Endpoint& endpoint() const;
  std::optional<Endpoint> resp_endpoint() const;  // address for Redis clients; nullopt: none
  // Returns the state of the server's parameters, tables and trainers.
  ShardInfo Info() const;
  // Returns OK, or the reason why the server rejects pushes or (without a log) wrote no checkpoint.
  Status StorageStatus() const;
  // Version of the checkpoint restored at the start; 0: none.
  uint64_t restored_version() const;
  // Returns the standbys that have made a request; empty without standbys.
  std::vector<StandbyInfo> standbys() const;
  // Returns the term of this server; LogTerm(): it has no standbys.
  LogTerm term() const;

  // Writes a checkpoint. FAILED_PRECONDITION: there is no data directory, or the initial values are
  // missing.
  StatusOr<SavedCheckpoint> SaveCheckpoint();
  // Stops serving. Saves a checkpoint if there is a data directory and the server has its initial
  // values, and returns the status of the write. Fails waiting calls with UNAVAILABLE. Ends calls
  // in progress by `deadline`.
  Status Drain(Time deadline);
  // Accepts no further push, and waits until a majority of the members has all log entries. All
  // waiting calls fail with UNAVAILABLE. The caller must then call GiveUp. DEADLINE_EXCEEDED: the
  // standbys lack entries at `deadline`; UNAVAILABLE: the log cannot be written. REQUIRES: the
  // server has standbys.
  Status HandOver(Time deadline);
  // Stops serving after PserverOptions::on_failure was called. Fails all waiting calls; calls that
  // wait for the failed storage receive the error of the storage. Ends calls in progress by
  // `deadline`.
  void GiveUp(Time deadline);

 private:
  Pserver();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
