// The values of a shard's image as a file (value_file.h): of each slice its parameters, then its
// optimizer slots; then of each table a TableRows for every bucket that has rows; then, where it
// has them, the parameters before the last update, of each slice and as a TableRows of each table.
// Which ones there are, and what they are called, stands in the ShardMeta.
#pragma once

#include <string>

#include "common/base/status.h"
#include "pserver/state/shard_types.h"
#include "pserver/storage/image_pieces.h"

namespace tandem {

class ShardMeta;
class CheckpointThrottle;

// Writes them, synced, by `pace` (null: as fast as it goes), and says in `meta` which there are.
Status WriteValues(const std::string& path, const ShardSnapshot& image, CheckpointThrottle* pace,
                   ShardMeta& meta);
// Gives `taker` what WriteValues wrote, behind `head`, which has its configuration; a thread reads
// ahead. DATA_LOSS naming the file and what is wrong with it, or that it is not the file of this
// `meta`: what was taken before is part of a file that nobody vouches for.
Status ReadValues(const std::string& path, const ShardMeta& meta, ShardSnapshot head,
                  SnapshotSink& taker);

}  // namespace tandem
