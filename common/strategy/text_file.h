// Reads text-proto files (job.pbtxt, a strategy, a program). Reports all errors of a file at once,
// each with line, column, excerpt and the nearest name. Supports protobuf's own text format (proto2
// and proto3 messages; no extensions, no Any), and in addition:
//   - bool and enum values in any case, and Python's True, False and None; an integer may be 20.0;
//   - the other spellings that a knob lists (knob.proto), with a note;
//   - a knob of the strategy inside another message of the strategy, as in Fleet's
//     BuildStrategy = {num_iteration_per_drop_scope: 30}: the parser sets the knob in its own
//     message, with a note.
// Rejects NaN and infinity, values outside a knob's range, fields set twice, and unknown names.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/strategy/diagnostics.h"
#include "common/strategy/origins.h"

namespace google::protobuf {
class Message;
}

namespace tandem::strategy {

inline constexpr int64_t kTextFileBytesMax = 16 << 20;
inline constexpr int kTextFileDepthMax = 32;  // maximum depth of messages inside messages

struct TextFile {
  std::string name;  // file name as shown in messages
  std::string text;
};

// Reads a whole file. NOT_FOUND: no such file. PERMISSION_DENIED: the file is not readable.
// INVALID_ARGUMENT: the path is a directory, or the file is larger than kTextFileBytesMax.
// DATA_LOSS: a read failed before the end.
StatusOr<TextFile> ReadTextFile(const std::string& path);

// Reads and parses a text-proto file. Returns an error if the file cannot be read. Errors inside
// the file are added to *diagnostics; the function then returns diagnostics->status().
Status LoadTextProto(const std::string& path, google::protobuf::Message* out, Origins* origins,
                     Diagnostics* diagnostics);

}  // namespace tandem::strategy
