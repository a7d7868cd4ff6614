// One server's part of a global snapshot (global_snapshot_hold.h).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/tables/bucket_map.h"
#include "common/tables/push_header.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// The pushes of one trainer that a global snapshot contains.
struct SnapshotFrontier {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;  // the trainer has completed, and all its pushes have ended
  SentNumbers numbers;
};
struct PausedState {
  std::vector<SnapshotFrontier> marks;  // accepted pushes of all trainers
  BucketMap map;
  std::optional<uint64_t> step;  // in sync mode: the version of the server
};
struct SnapshotRequest {
  SnapshotRecord record;
  std::vector<SnapshotFrontier> marks;
  uint64_t map_version = 0;  // version of the bucket map in PausedState
  Duration lease{};          // maximum time for which the server waits for missing pushes
  uint64_t taker = 0;        // identifies the coordinator (HoldPushesRequest.taker)
  // In sync mode: the highest version of all servers. The snapshot has this version on each server.
  std::optional<uint64_t> step = {};
};
// Identifies a global snapshot in a store.
struct SnapshotName {
  uint64_t number = 0;
  int64_t time_us = 0;   // microseconds of Unix time on the coordinator's clock; 0: unknown
  bool rebuilt = false;  // made of a stored state and the log; never was the state of the server
};
// A global snapshot on the disk of a server.
struct StoredGlobalSnapshot {
  uint64_t number = 0, version = 0;
  int64_t time_us = 0;  // as in SnapshotName
  uint64_t bytes = 0;   // size of its file of values
  // Number of the last WAL entry whose change is in the snapshot; 0: the server has no log.
  uint64_t log_number = 0;
  // true: no predecessor of the state that the server has. A later restore returned to an earlier
  // state, or the snapshot was rebuilt and not restored.
  bool abandoned = false;
  bool rebuilt = false;  // as in SnapshotName
  friend bool operator==(const StoredGlobalSnapshot&, const StoredGlobalSnapshot&) = default;
};
struct PendingSnapshot {
  SnapshotFn copy;
  Duration held{};  // time for which the server paused new pushes
};

}  // namespace tandem::pserver
