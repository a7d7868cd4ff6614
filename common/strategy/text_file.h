// Text-proto files (job.pbtxt, a strategy, a program) read with errors that help: all errors of a
// file at once, each with line, column, excerpt and the nearest name. Understands what protobuf's
// own text format does (proto2 and proto3 messages; no extensions, no Any), and more:
//   - bool and enum values in any case, Python's True, False and None; an integer may be
//   written 20.0
//   - the other spellings that a knob lists (knob.proto), with a note
//   - a knob of the strategy that stands in another message of the strategy, as in Fleet's
//     BuildStrategy = {num_iteration_per_drop_scope: 30}: it is put where it belongs, with a note
// Refused: NaN and infinity, values outside a knob's range, a field given twice, unknown names.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/origins.h"

namespace google::protobuf {
class Message;
}

namespace tandem {

inline constexpr int64_t kTextFileBytesMax = 16 << 20;
inline constexpr int kTextFileDepthMax = 32;  // messages inside messages

struct TextFile {
  std::string name;  // as shown in messages
  std::string text;
};

// The whole file. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (a folder, larger than
// kTextFileBytesMax), or DATA_LOSS where reading fails half way.
StatusOr<TextFile> ReadTextFile(const std::string& path);

// Clears *out and fills it. Every error is added to *diagnostics, and *out then holds all that was
// understood, so that further checks can add theirs before anything is reported. *origins (may be
// null) gets the place of every field that is not inside a repeated message.
void ParseTextProto(const TextFile& file, google::protobuf::Message* out, Origins* origins,
                    Diagnostics* diagnostics);

// Both. An unreadable file is a Status, errors inside it are in *diagnostics and returned as
// diagnostics->status().
Status LoadTextProto(const std::string& path, google::protobuf::Message* out, Origins* origins,
                     Diagnostics* diagnostics);

}  // namespace tandem
