// The parser of text-proto files. text_file.h describes the format.
#pragma once

#include "common/strategy/text_file.h"

namespace tandem::strategy {

// Clears *out and fills it from `file`. Adds every error to *diagnostics. After errors *out
// contains all fields that the parser understood, so that later checks can add their own errors.
// *origins gets the origin of every field that is not inside a repeated message. `origins` may be
// null.
void ParseTextProto(const TextFile& file, google::protobuf::Message* out, Origins* origins,
                    Diagnostics* diagnostics);

}  // namespace tandem::strategy
