// The record that names a checkpoint or a cut in the store: all of an image but its values, and the
// file that has these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "pserver/storage/image_pieces.h"

namespace tandem {

class ShardMeta;  // proto/pserver.proto

// "values-7", a file in the store's folder.
std::string ValuesName(uint64_t number);
// nullopt: no such name.
std::optional<uint64_t> ValuesNumber(std::string_view name);

// But for the file of values.
ShardMeta MakeMeta(const ShardSnapshot& image);
// DATA_LOSS naming `what` for a record that is damaged, or names a file that ValuesName does not
// give. FAILED_PRECONDITION for another format.
StatusOr<ShardMeta> ParseMeta(const std::string& what, const std::string& record);
StatusOr<ShardSnapshot> ImageOf(const ShardMeta& meta);

}  // namespace tandem
