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
  const Backend* backend = nullptr;  // both null: as for rows. Must outlive the shard.
  Device* device = nullptr;
};

struct ShardOptions {
  uint64_t server_incarnation = 1;      // a new number at each start
  int index = 0;                        // server index in the job
  std::string job;                      // "": accepts the first job that configures it
  int trainers = 0;                     // 0: as configured by the first trainer
  uint64_t checkpoint_every_steps = 0;  // 0: no automatic checkpoints
  int checkpoint_deltas = 0;            // number of deltas after each full checkpoint
  // Called with the state after every checkpoint_every_steps updates; must not block for long.
  std::function<void(uint64_t version, SnapshotFn)> on_checkpoint;
  // Called while others wait for a trainer that has stopped calling.
  std::function<void(int trainer, Duration silent)> on_silent;
  // on_silent restarts the trainer: others wait for it until their deadline.
  bool replaces = false;
  // If not null, every change is logged before it is acknowledged. If null, changes after a
  // checkpoint are lost with the process. Must outlive the shard.
  WriteAheadLog* log = nullptr;
  // Stores the initial values, to which log entries apply; needed with a log. May take long: the
  // shard has its initial values when this returned OK, and serves other calls meanwhile.
  std::function<Status(const ShardSnapshot&)> keep_first;
  // Start state of a server that is not configured: "its data folder x was empty when it began".
  std::string found;
  // The log stores only the order of pushes; their senders keep the values until a checkpoint
  // contains them.
  bool replayable = false;
  uint64_t keep_bytes_max = uint64_t{1} << 30;  // per trainer
  // Called when a checkpoint is due (`replayable` only), with the lock held; must not block.
  std::function<void()> save_soon;
  // Memory for returned buffers; null or full: other memory is used.
  std::shared_ptr<Arena> arena = nullptr;
  SlicePlace slices = {};
  TableMemory table_memory = {};  // its store must outlive the shard
  // Threads that share the work of updates; null: only the caller's thread. Must outlive the
  // shard.
  ForkJoin* workers = nullptr;
};

}  // namespace tandem::pserver
