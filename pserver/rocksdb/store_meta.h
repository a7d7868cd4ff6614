// The record of a checkpoint or a global snapshot in the store: everything except its values, and
// the name of the file with the values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem {
class ShardMeta;  // proto/pserver.proto
}  // namespace tandem

namespace tandem::pserver {

// "values-7", a file in the store's directory.
std::string ValuesName(uint64_t number);
// nullopt: not a name of this form.
std::optional<uint64_t> ValuesNumber(std::string_view name);

// Without the name of the value file.
ShardMeta MakeMeta(const ShardSnapshot& snapshot);
// DATA_LOSS: the record is damaged, or names a file that ValuesName does not produce (the message
// names `what`). FAILED_PRECONDITION: another format.
StatusOr<ShardMeta> ParseMeta(const std::string& what, const std::string& record);
StatusOr<ShardSnapshot> SnapshotHeadOf(const ShardMeta& meta);

}  // namespace tandem::pserver
