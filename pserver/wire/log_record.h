// Converts WAL entries to bytes and back.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/codec/tensor_codec.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// The kind of an entry: its first byte on the disk.
enum class LogKind : uint8_t {
  kPush = 1,
  kAdopt = 2,
  kComplete = 3,
  kMoveBegun = 4,
  kMoveOffered = 5,
  kMoveReleased = 6,
  kMoveLearned = 7,
  kOrder = 8,
  kMoveRefused = 9,
  kSnapshot = 10,
};

// Encodes an entry without its number. The result refers to memory of `entry`, which must outlive
// the result.
codec::EncodedMessage EncodeLogEntry(const LogEntry& entry);
// Decodes an entry. `number`: the number of the entry, which is not among the bytes. DATA_LOSS: the
// bytes are damaged.
StatusOr<LogEntry> DecodeLogEntry(uint64_t number, std::string_view bytes);

}  // namespace tandem::pserver
