// The values of a shard snapshot as a file (value_file.h). For each slice: its parameters, then its
// optimizer slots. Then for each table: a TableRows for every bucket that has rows. Then, if
// present, the values before the last update: the parameters of each slice and a TableRows of each
// table. ShardMeta lists the names and the parts that exist.
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

// Writes the values, synced, at the rate of `pace` (null: unlimited), and lists them in `meta`.
Status WriteValues(const std::string& path, const ShardSnapshot& snapshot, CheckpointThrottle* pace,
                   ShardMeta& meta);
// Passes `head` with its configuration to `sink`, then the values that WriteValues wrote. A thread
// reads ahead. DATA_LOSS: the file is damaged or does not belong to this `meta` (the message names
// file and error); chunks passed before are not verified.
Status ReadValues(const std::string& path, const ShardMeta& meta, ShardSnapshot head,
                  SnapshotSink& sink);

}  // namespace tandem::pserver
