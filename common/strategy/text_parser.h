// The parser of text-proto files; text_file.h describes the format.
#pragma once

#include "common/strategy/text_file.h"

namespace tandem::strategy {

// Clears *out and fills it. Adds every error to *diagnostics. *out then holds everything that was
// understood, so that later checks can add their errors before a report. *origins (may be null)
// gets the origin of every field that is not inside a repeated message.
void ParseTextProto(const TextFile& file, google::protobuf::Message* out, Origins* origins,
                    Diagnostics* diagnostics);

}  // namespace tandem::strategy
