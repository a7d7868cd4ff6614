// The status of a shard, and the shard's reply to Configure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/tables/bucket_map.h"
#include "pserver/state/shard_config.h"

namespace tandem::pserver {

struct ConfigureResult {
  uint64_t server_incarnation = 0;
  bool initialised = false, restored = false;
  uint64_t version = 0;
  BucketMap map = {};  // moves of buckets that the shard knows
  uint64_t generation = 0;
  bool replayable = false;
  uint64_t keep_bytes_max = 0;
  uint64_t steps = 0;  // as TrainerInfo::steps, of the caller's trainer
};

struct TrainerInfo {
  int trainer = 0;
  bool seen = false, completed = false, lost = false;
  uint64_t incarnation = 0, pushes = 0, last_step = 0;
  uint64_t skipped = 0;  // number of `pushes` without effect, because of NonfinitePolicy::kSkip
  // Number of pushes since the job began whose values are lost (push_replay.h).
  uint64_t lost_pushes = 0;
  uint64_t steps = 0;  // number of the trainer's steps that the shard has (PushHeader::once)
  double silent_seconds = 0;
  // Time for which calls of the trainer waited for other trainers, since the server started.
  double waited_seconds = 0;
  double waited_recently = 0;  // the part of waited_seconds in the last minute
};
struct TableInfo {
  std::string variable;
  size_t rows = 0, bytes = 0;
  size_t waiting = 0;  // number of rows that are not admitted yet
  // `dropped` and `removed` count since the server started.
  uint64_t dropped = 0;  // number of gradients of rows that were not admitted
  uint64_t removed = 0;  // number of removed rows
  size_t extended = 0;   // number of `rows` that have their vector (row_accessor.h)
  // These fields are 0 if all rows are in memory (row_tiers.h). `fetched`, `written` and
  // `read_seconds` count since the table was created.
  size_t cold_rows = 0;     // number of rows that exist only outside memory
  uint64_t fetched = 0;     // number of rows read into memory
  uint64_t written = 0;     // number of rows that were written when they left memory
  double read_seconds = 0;  // time spent waiting for reads of rows
};
struct ShardInfo {
  bool configured = false, initialised = false;
  ShardConfig config;  // empty if the shard is not configured
  uint64_t version = 0;
  std::vector<TrainerInfo> trainers;
  std::vector<TableInfo> tables;
  size_t buckets = 0;  // number of row buckets that the shard serves
  // Version of the bucket map that the shard knows (BucketMap); 0: the shard knows no moves.
  uint64_t map_version = 0;
  uint64_t last_snapshot =
      0;  // highest number of a snapshot that was taken, abandoned or begun on this server
  uint64_t repeated_pushes = 0;  // number of received pushes that this process had already accepted
};

}  // namespace tandem::pserver
