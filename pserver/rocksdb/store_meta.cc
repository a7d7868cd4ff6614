#include "pserver/rocksdb/store_meta.h"

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/pserver.pb.h"
#include "pserver/wire/move_convert.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {
namespace {

constexpr uint32_t kFormat = 2;
constexpr uint32_t kFormatMoved = 3;  // format of a store in which buckets have moved or are moving
constexpr std::string_view kValues = "values-";
static_assert(kFormat != kFormatMoved, "an older program must reject a store with moves");

// Checks the name of the value file in a record that was read from the disk. A name with
// directories could refer to a file outside the store.
Status CheckFile(const std::string& what, const ShardMeta& meta) {
  if (ValuesNumber(meta.values_file())) return OkStatus();
  return DataLoss(
      "%s names the value file \"%s\", expected %sNUMBER [TD2111]; hint: restore a copy of the "
      "directory, or move the directory away to start without this checkpoint",
      what, absl::CHexEscape(meta.values_file()), kValues);
}

}  // namespace

std::string ValuesName(uint64_t number) { return absl::StrFormat("%s%d", kValues, number); }

std::optional<uint64_t> ValuesNumber(std::string_view name) {
  uint64_t number = 0;
  if (!name.starts_with(kValues)) return std::nullopt;
  const std::string digits(name.substr(kValues.size()));
  if (!absl::SimpleAtoi(digits, &number) || digits != std::to_string(number)) return std::nullopt;
  return number;
}

ShardMeta MakeMeta(const ShardSnapshot& snapshot) {
  ShardMeta meta;
  meta.set_format(kFormat);
  ToProto(snapshot.config, meta.mutable_config());
  meta.set_version(snapshot.version);
  meta.set_log_number(snapshot.log_number);
  meta.set_event_time_ms(snapshot.event_time_ms);
  for (const TrainerPushState& m : snapshot.marks) ToProto(m, meta.add_mark());
  if (snapshot.moves != nullptr) {
    meta.set_format(kFormatMoved);
    ToProto(*snapshot.moves, meta.mutable_moves());
  }
  return meta;
}

StatusOr<ShardMeta> ParseMeta(const std::string& what, const std::string& record) {
  ShardMeta meta;
  if (!meta.ParseFromString(record)) {
    return DataLoss(
        "%s is damaged [TD2118]; hint: restore a copy of the directory, or move the directory away "
        "to start with an empty state",
        what);
  }
  if (meta.format() != kFormat && meta.format() != kFormatMoved) {
    return FailedPrecondition(
        "%s has format %d, expected format %d or %d [TD2119]; hint: start the version of Tandem "
        "that wrote this store",
        what, meta.format(), kFormat, kFormatMoved);
  }
  TD_RETURN_IF_ERROR(CheckFile(what, meta));
  if (meta.has_base()) TD_RETURN_IF_ERROR(CheckFile(what + " of the full checkpoint", meta.base()));
  return meta;
}

StatusOr<ShardSnapshot> SnapshotHeadOf(const ShardMeta& meta) {
  ShardSnapshot snapshot;
  TD_ASSIGN_OR_RETURN(snapshot.config, FromProto(meta.config()));
  TD_RETURN_IF_ERROR(CheckConfig(snapshot.config));
  snapshot.version = meta.version();
  snapshot.log_number = meta.log_number();
  snapshot.event_time_ms = meta.event_time_ms();
  for (const TrainerMark& m : meta.mark()) {
    TD_ASSIGN_OR_RETURN(TrainerPushState mark, FromProto(m));
    snapshot.marks.push_back(mark);
  }
  if (meta.format() == kFormatMoved) {
    TD_ASSIGN_OR_RETURN(MoveState moves, FromProto(meta.moves()));
    snapshot.moves = std::make_shared<MoveState>(std::move(moves));
  }
  return snapshot;
}

std::string TermText(const LogTerm& term) {
  return absl::StrFormat("%d %d %d", term.history, term.number, term.start);
}

StatusOr<LogTerm> ParseTerm(const std::string& dir, const std::string& text) {
  LogTerm term;
  const std::vector<std::string> parts = absl::StrSplit(text, ' ');
  if (parts.size() == 3 && absl::SimpleAtoi(parts[0], &term.history) &&
      absl::SimpleAtoi(parts[1], &term.number) && absl::SimpleAtoi(parts[2], &term.start)) {
    return term;
  }
  return DataLoss(
      "%s: the record of the term is damaged [TD2118]; hint: restore a copy of the directory, or "
      "move the directory away to start with an empty state",
      dir);
}

}  // namespace tandem::pserver
