#include "pserver/wire/log_record.h"

#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/crc32c.h"
#include "common/base/require.h"
#include "common/base/visitor.h"
#include "common/codec/bucket_map_proto.h"
#include "proto/pserver.pb.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/buffer_pool.h"
#include "pserver/wire/move_convert.h"

namespace tandem::pserver {
namespace {

constexpr size_t kHeadBytes = 5;  // bytes of a record before its content: kind (1), CRC32C (4)
static_assert(kHeadBytes == sizeof(LogKind) + sizeof(uint32_t));

// Clears the fields that concern only the acceptance of a push. The log does not store these
// fields.
PushHeader LoggedFields(PushHeader header) {
  header.generation = 0;
  header.origin_server = 0;
  header.origin_sequence = 0;
  header.finite = false;
  return header;
}

codec::EncodedMessage EncodeHeader(PushHeader header) {
  return codec::EncodePush({.header = LoggedFields(std::move(header)), .slices = {}, .pull = ""});
}

codec::EncodedMessage EncodePushOf(const PushRecord& record) {
  TD_REQUIRE(record.values.size() <= record.head.slices.size());
  codec::CodedPush push;
  push.header = LoggedFields(record.head);
  for (size_t i = 0; i < record.values.size(); ++i) {
    codec::CodedSlice slice;
    slice.variable = record.head.slices[i].variable;
    slice.offset = record.head.slices[i].offset;
    slice.desc = record.head.slices[i].desc;
    slice.data = record.values[i].get();
    push.slices.push_back(std::move(slice));
  }
  return codec::EncodePush(push);
}

struct Encoded {
  LogKind kind;
  codec::EncodedMessage message;
};

Encoded EncodeMove(const MoveRecord& record) {
  MoveEntry message;
  message.mutable_map();  // sets the field `map`, so that each entry contains a map
  const LogKind kind = std::visit(Visitor{[&](const MoveBegunRecord& r) {
                                            ToProto(r.moves, message.mutable_move());
                                            return LogKind::kMoveBegun;
                                          },
                                          [&](const MoveOfferedRecord& r) {
                                            if (!r.migration->moves.empty())
                                              ToProto(*r.migration, message.mutable_parcel());
                                            return LogKind::kMoveOffered;
                                          },
                                          [&](const MoveReleasedRecord& r) {
                                            ToProto(r.moves, message.mutable_move());
                                            ToProto(r.map, message.mutable_map());
                                            return LogKind::kMoveReleased;
                                          },
                                          [&](const MoveLearnedRecord& r) {
                                            ToProto(r.map, message.mutable_map());
                                            return LogKind::kMoveLearned;
                                          },
                                          [&](const MoveRefusedRecord& r) {
                                            message.set_leaving(r.leaving);
                                            return LogKind::kMoveRefused;
                                          }},
                                  record);
  Encoded encoded{kind, {}};
  encoded.message.pieces.push_back({message.SerializeAsString(), nullptr, 0, nullptr});
  return encoded;
}

Encoded EncodeSnapshot(const SnapshotRecord& record) {
  SnapshotEntry message;
  message.set_number(record.number);
  message.set_time_us(record.time_us);
  message.set_complete(record.complete);
  message.mutable_whole()->Add(record.whole.begin(), record.whole.end());
  Encoded encoded{LogKind::kSnapshot, {}};
  encoded.message.pieces.push_back({message.SerializeAsString(), nullptr, 0, nullptr});
  return encoded;
}

Encoded Encode(const LogRecord& record) {
  return std::visit(
      Visitor{[](const PushRecord& r) {
                return Encoded{LogKind::kPush, EncodePushOf(r)};
              },
              [](const OrderRecord& r) {
                return Encoded{LogKind::kOrder, EncodeHeader(r.header)};
              },
              [](const AdoptRecord& r) {
                return Encoded{LogKind::kAdopt, EncodeHeader({.caller = r.caller, .step = r.step})};
              },
              [](const CompleteRecord& r) {
                return Encoded{LogKind::kComplete,
                               EncodeHeader({.caller = r.caller, .numbers = r.numbers})};
              },
              [](const MoveRecord& r) { return EncodeMove(r); },
              [](const SnapshotRecord& r) { return EncodeSnapshot(r); }},
      record);
}

StatusOr<PushRecord> DecodePushRecord(std::span<const std::byte> body, codec::CodedPush push) {
  const codec::Fragments message(&body, 1);
  PushRecord record{{std::move(push.header), {}}, {}};
  BufferPool pool(0);
  for (const codec::CodedSlice& s : push.slices) {
    record.head.slices.push_back({s.variable, s.offset, s.desc});
    TD_ASSIGN_OR_RETURN(Buffer values, pool.Take(s.desc.bytes()));
    TD_RETURN_IF_ERROR(codec::CopyContent(message, s, values.get()));
    record.values.push_back(std::move(values));
  }
  return record;
}

StatusOr<MoveRecord> DecodeMove(LogKind kind, const MoveEntry& message) {
  switch (kind) {
    case LogKind::kMoveBegun:
      return MoveBegunRecord{FromProto(message.move())};
    case LogKind::kMoveOffered: {
      BucketMigration migration;
      if (message.has_parcel()) {
        TD_ASSIGN_OR_RETURN(migration, FromProto(message.parcel()));
      }
      return MoveOfferedRecord{std::make_shared<BucketMigration>(std::move(migration))};
    }
    case LogKind::kMoveReleased:
      return MoveReleasedRecord{FromProto(message.move()), FromProto(message.map())};
    case LogKind::kMoveLearned:
      return MoveLearnedRecord{FromProto(message.map())};
    case LogKind::kMoveRefused:
      return MoveRefusedRecord{message.leaving()};
    case LogKind::kPush:
    case LogKind::kOrder:
    case LogKind::kAdopt:
    case LogKind::kComplete:
    case LogKind::kSnapshot:
      break;
  }
  return Internal("log record has kind %d, expected the kind of a migration record",
                  static_cast<int>(kind));
}

bool IsMove(LogKind kind) {
  return kind > LogKind::kComplete && kind != LogKind::kOrder && kind != LogKind::kSnapshot;
}

}  // namespace

codec::EncodedMessage EncodeLogEntry(const LogEntry& entry) {
  auto [kind, message] = Encode(entry.record);
  uint32_t sum = 0;
  for (const codec::EncodedMessage::Piece& p : message.pieces) {
    sum = p.data != nullptr ? Crc32c(sum, p.data, p.bytes)
                            : Crc32c(sum, p.owned.data(), p.owned.size());
  }
  std::string prefix(1, static_cast<char>(kind));
  codec::PutFixed32(prefix, sum);
  TD_REQUIRE(prefix.size() == kHeadBytes);
  message.pieces.insert(message.pieces.begin(), {std::move(prefix), nullptr, 0, nullptr});
  return std::move(message);
}

StatusOr<LogEntry> DecodeLogEntry(uint64_t number, std::string_view bytes) {
  const auto damaged = [number](const char* what) {
    return DataLoss(
        "entry %d of the update log is damaged: %s [TD2118]; hint: restore a copy of the "
        "directory, or move the directory away to start with an empty state",
        number, what);
  };
  if (bytes.size() < kHeadBytes) return damaged("too short");
  const std::string_view body = bytes.substr(kHeadBytes);
  std::string prefix(1, bytes[0]);
  codec::PutFixed32(prefix, Crc32c(0, body.data(), body.size()));
  if (prefix != bytes.substr(0, kHeadBytes)) return damaged("CRC32C");
  const auto kind = static_cast<LogKind>(bytes[0]);
  if (kind < LogKind::kPush) return damaged("kind");
  if (kind > LogKind::kSnapshot) {
    return FailedPrecondition(
        "entry %d of the update log has the kind %d, which this version does not know, because a "
        "newer version wrote it [TD2119]; hint: start the newer version",
        number, static_cast<int>(kind));
  }
  if (IsMove(kind)) {
    MoveEntry message;
    if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      return damaged("not a MoveEntry");
    }
    TD_ASSIGN_OR_RETURN(MoveRecord record, DecodeMove(kind, message));
    return LogEntry{number, std::move(record)};
  }
  if (kind == LogKind::kSnapshot) {
    SnapshotEntry message;
    if (!message.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
      return damaged("not a SnapshotEntry");
    }
    return LogEntry{number, SnapshotRecord{message.number(),
                                           message.time_us(),
                                           message.complete(),
                                           {message.whole().begin(), message.whole().end()}}};
  }
  const std::span<const std::byte> piece(reinterpret_cast<const std::byte*>(body.data()),
                                         body.size());
  StatusOr<codec::CodedPush> push = codec::DecodePush({&piece, 1});
  if (!push.ok()) return damaged("not a PushRequest");
  push->header = LoggedFields(std::move(push->header));
  PushHeader& header = push->header;
  if (kind == LogKind::kOrder) return LogEntry{number, OrderRecord{std::move(header)}};
  if (kind == LogKind::kComplete) {
    return LogEntry{number, CompleteRecord{std::move(header.caller), std::move(header.numbers)}};
  }
  if (kind == LogKind::kAdopt) {
    return LogEntry{number, AdoptRecord{std::move(header.caller), header.step}};
  }
  TD_ASSIGN_OR_RETURN(PushRecord record, DecodePushRecord(piece, *std::move(push)));
  return LogEntry{number, std::move(record)};
}

}  // namespace tandem::pserver
