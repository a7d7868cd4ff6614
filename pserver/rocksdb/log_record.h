// WAL entries as bytes.
#pragma once

#include <string_view>

#include "common/codec/tensor_codec.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// Encodes an entry without its number, as fragments that reference its values.
codec::EncodedMessage EncodeLogEntry(const LogEntry& entry);
// The caller supplies the number. DATA_LOSS: the bytes are damaged.
StatusOr<LogEntry> DecodeLogEntry(uint64_t number, std::string_view bytes);

}  // namespace tandem::pserver
