// Options of a shard, which its owner sets before the first call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"
#include "pserver/tables/shard_params.h"

namespace tandem::pserver {

// Backend and device of dense slices and their optimizer state.
struct SlicePlace {
  // null: slices use the backend and the device of the rows. `backend` and `device` must outlive
  // the shard.
  const exec::Backend* backend = nullptr;
  Device* device = nullptr;
};

struct ShardOptions {
  uint64_t server_incarnation = 1;  // incarnation of the server, a new number at each start
  int index = 0;                    // index of the server in the job
  std::string job;   // name of the job; "": the shard accepts any job that configures it first
  int trainers = 0;  // number of trainers; 0: the number that the first trainer configures
  uint64_t checkpoint_every_steps = 0;  // steps between checkpoints; 0: no automatic checkpoints
  int checkpoint_deltas = 0;            // number of delta checkpoints after each full checkpoint
  // Called after every checkpoint_every_steps updates, with a function that copies the state. Must
  // not block for long.
  std::function<void(uint64_t version, SnapshotFn)> on_checkpoint;
  // Takes a global snapshot that the replayed log has (SnapshotRecord), with a function that copies
  // the state. Must not block. null: the log has no snapshots, because no other server replays it,
  // or this server does not take them.
  std::function<void(const SnapshotRecord&, SnapshotFn)> on_logged_snapshot;
  // Called while calls wait for an unresponsive trainer. `silent`: time since the last call of the
  // trainer.
  std::function<void(int trainer, Duration silent)> on_silent;
  // true: on_silent causes a restart of the trainer, so calls wait for the trainer until their
  // deadlines.
  bool replaces = false;
  // If not null, every change is logged before it is acknowledged. null: changes after the last
  // checkpoint are lost when the process ends. The log must outlive the shard.
  WriteAheadLog* log = nullptr;
  // Stores the snapshot of the initial values, to which the log entries are changes. Required if
  // there is a log. May take long; the shard serves other calls meanwhile. The shard counts as
  // initialised only after this function has returned OK.
  std::function<Status(const ShardSnapshot&)> keep_first;
  // State of the server's data at its start, for messages of a server that is not configured: "its
  // directory x contained no checkpoint at the start".
  std::string found;
  // true: the log stores only the order of pushes. Trainers keep the values until a checkpoint
  // contains the pushes.
  bool replayable = false;
  Replication replication = Replication::kQuorum;  // when standbys receive the log
  uint64_t keep_bytes_max = uint64_t{1} << 30;  // maximum bytes of the pushes that a trainer keeps
  // Called when a checkpoint should be written soon, only if `replayable`. The lock of the shard is
  // held, so the function must not block.
  std::function<void()> save_soon;
  // Memory for buffers that the shard returns. If null or full, the shard allocates other memory.
  std::shared_ptr<Arena> arena = nullptr;
  SlicePlace slices = {};
  TableMemory table_memory = {};  // the `cold` store must outlive the shard
  // Threads that share the work of updates; null: only the calling thread works. Must outlive the
  // shard.
  ForkJoin* workers = nullptr;
};

}  // namespace tandem::pserver
