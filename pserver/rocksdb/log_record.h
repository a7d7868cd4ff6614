// Entries of the update log as bytes.
#pragma once

#include <string_view>

#include "common/codec/tensor_codec.h"
#include "pserver/state/wal.h"

namespace tandem {

// The bytes of an entry, in pieces that reference its values; all but its number.
EncodedMessage EncodeLogEntry(const LogEntry& entry);
// DATA_LOSS for bytes that are damaged. The number is the caller's.
StatusOr<LogEntry> DecodeLogEntry(uint64_t number, std::string_view bytes);

}  // namespace tandem
