// Programs as ProgramDef messages (proto/program.proto). Reading text files is
// common/strategy's work; this turns the message into a Program and back.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

namespace pb {
class ProgramDef;
}

// `batch` binds leading -1 dimensions. Every operator is checked as AppendOp does; messages name
// the operator by `source` ("model.pbtxt") and its number.
StatusOr<Program> FromProto(const pb::ProgramDef& def, int64_t batch, const std::string& source);
// `out` is cleared first. Temporaries are left out: they are inferred.
void ToProto(const Program& program, pb::ProgramDef* out);

}  // namespace tandem
