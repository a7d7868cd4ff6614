#include "pserver/rocksdb/log_record.h"

#include <algorithm>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/require.h"
#include "proto/pserver.pb.h"
#include "pserver/state/buffer_pool.h"
#include "pserver/wire/move_convert.h"

namespace tandem::pserver {
namespace {

constexpr size_t kHeadBytes = 5;  // bytes before the content of a record: kind, CRC32C
static_assert(kHeadBytes == sizeof(LogEntry::Kind) + sizeof(uint32_t));

// The log has no field that concerns only the acceptance of a push.
PushHeader LoggedFields(PushHeader header) {
  header.generation = 0;
  header.origin_server = 0;
  header.origin_sequence = 0;
  header.finite = false;
  return header;
}

codec::EncodedMessage EncodePushOf(const LogEntry& entry) {
  const PushHead& head = entry.head;
  TD_REQUIRE(entry.values.size() <= head.slices.size());
  codec::CodedPush push;
  push.header = LoggedFields(head);
  for (size_t i = 0; i < entry.values.size(); ++i) {
    codec::CodedSlice slice;
    slice.variable = head.slices[i].variable;
    slice.offset = head.slices[i].offset;
    slice.desc = head.slices[i].desc;
    slice.data = entry.values[i].get();
    push.slices.push_back(std::move(slice));
  }
  return codec::EncodePush(push, /*crc32c=*/false);
}

codec::EncodedMessage EncodeMoveOf(const LogEntry& entry) {
  TD_REQUIRE(entry.move != nullptr);
  MoveEntry message;
  ToProto(*entry.move, &message);
  codec::EncodedMessage encoded;
  encoded.pieces.push_back({message.SerializeAsString(), nullptr, 0, nullptr});
  return encoded;
}

}  // namespace

codec::EncodedMessage EncodeLogEntry(const LogEntry& entry) {
  codec::EncodedMessage message = entry.move == nullptr ? EncodePushOf(entry) : EncodeMoveOf(entry);
  uint32_t sum = 0;
  for (const codec::EncodedMessage::Piece& p : message.pieces) {
    sum = p.data != nullptr ? Crc32c(sum, p.data, p.bytes)
                            : Crc32c(sum, p.owned.data(), p.owned.size());
  }
  std::string prefix(1, static_cast<char>(entry.kind));
  codec::PutFixed32(prefix, sum);
  TD_REQUIRE(prefix.size() == kHeadBytes);
  message.pieces.insert(message.pieces.begin(), {std::move(prefix), nullptr, 0, nullptr});
  return message;
}

StatusOr<LogEntry> DecodeLogEntry(uint64_t number, std::string_view bytes) {
  const auto damaged = [number](const char* what) {
    return DataLoss(
        "entry %d of the update log is damaged: %s [TD2118]; hint: restore a copy of the "
        "directory, or move it away to start without it",
        number, what);
  };
  if (bytes.size() < kHeadBytes) return damaged("too short");
  const std::string_view body = bytes.substr(kHeadBytes);
  std::string prefix(1, bytes[0]);
  codec::PutFixed32(prefix, Crc32c(0, body.data(), body.size()));
  if (prefix != bytes.substr(0, kHeadBytes)) return damaged("CRC32C");
  const auto kind = static_cast<LogEntry::Kind>(bytes[0]);
  if (kind < LogEntry::Kind::kPush || kind > LogEntry::Kind::kMoveRefused) return damaged("kind");
  if (kind > LogEntry::Kind::kComplete && kind != LogEntry::Kind::kOrder) {
    MoveEntry message;
    if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      return damaged("not a MoveEntry");
    }
    TD_ASSIGN_OR_RETURN(MoveRecord move, FromProto(message));
    LogEntry entry{number, kind, {}, {}};
    entry.move = std::make_shared<MoveRecord>(std::move(move));
    return entry;
  }
  const std::span<const std::byte> piece(reinterpret_cast<const std::byte*>(body.data()),
                                         body.size());
  StatusOr<codec::CodedPush> push = codec::DecodePush({&piece, 1});
  if (!push.ok()) return damaged("not a PushRequest");
  LogEntry entry{number, kind, {LoggedFields(std::move(push->header)), {}}, {}};
  BufferPool pool(0);
  for (const codec::CodedSlice& s : push->slices) {
    entry.head.slices.push_back({s.variable, s.offset, s.desc});
    TD_ASSIGN_OR_RETURN(Buffer values, pool.Take(s.desc.bytes()));
    TD_RETURN_IF_ERROR(codec::CopyContent({&piece, 1}, s, values.get()));
    entry.values.push_back(std::move(values));
  }
  return entry;
}

}  // namespace tandem::pserver
