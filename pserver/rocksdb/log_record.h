// Converts WAL entries to bytes and back.
#pragma once

#include <string_view>

#include "common/codec/tensor_codec.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// Encodes an entry without its number. The fragments of the result refer to the values of `entry`.
codec::EncodedMessage EncodeLogEntry(const LogEntry& entry);
// Decodes an entry. `number`: the number of the entry, which is not in the bytes. DATA_LOSS: the
// bytes are damaged.
StatusOr<LogEntry> DecodeLogEntry(uint64_t number, std::string_view bytes);

}  // namespace tandem::pserver
