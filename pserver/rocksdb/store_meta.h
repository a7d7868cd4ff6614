// The record of a checkpoint or a global snapshot in the store. The record has the name of the
// value file, and all data of the snapshot except the values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "pserver/storage/checkpoint_files.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem {
class ShardMeta;  // a message of proto/pserver.proto
}  // namespace tandem

namespace tandem::pserver {

// Returns the name of a value file in the store's directory: "values-7".
std::string ValuesName(uint64_t number);
// Returns the number in the name of a value file; nullopt: the name has another form.
std::optional<uint64_t> ValuesNumber(std::string_view name);

// Makes the record of `snapshot`, without the name of the value file.
ShardMeta MakeMeta(const ShardSnapshot& snapshot);
// Parses the record of a checkpoint. `what`: name of the record in messages. DATA_LOSS: the record
// is damaged, or names a file that ValuesName does not produce. FAILED_PRECONDITION: the record has
// another format.
StatusOr<ShardMeta> ParseMeta(const std::string& what, const std::string& record);
StatusOr<ShardSnapshot> SnapshotHeadOf(const ShardMeta& meta);

// Writes and parses the record of a term. `dir`: the store in messages. DATA_LOSS: the record is
// damaged.
std::string TermText(const LogTerm& term);
StatusOr<LogTerm> ParseTerm(const std::string& dir, const std::string& text);

}  // namespace tandem::pserver
