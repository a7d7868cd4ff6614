// The values of a shard snapshot as a file (value_file.h). First, for each slice: its parameters,
// then its optimizer slots. Second, for each table: a TableRows message for every bucket that has
// rows. Third, if ShardSnapshot::has_previous: the parameters of each slice and a TableRows message
// of each table, with the values before the last update. ShardMeta lists the names and the existing
// parts.
#pragma once

#include <string>

#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem {
class ShardMeta;
}  // namespace tandem

namespace tandem::pserver {

class CheckpointThrottle;

// Writes the values to a new file, syncs the file, and lists the values in `meta`. `pace` limits
// the write rate; null: unlimited.
Status WriteValues(const std::string& path, const ShardSnapshot& snapshot, CheckpointThrottle* pace,
                   ShardMeta& meta);
// Passes `head` to `sink`, then the values that WriteValues wrote. `head` has the configuration of
// the snapshot. A separate thread reads ahead. DATA_LOSS: the file is damaged or does not belong to
// `meta` (the message names the file and the error). After an error, the caller must not use the
// chunks that `sink` received.
Status ReadValues(const std::string& path, const ShardMeta& meta, ShardSnapshot head,
                  SnapshotSink& sink);

}  // namespace tandem::pserver
