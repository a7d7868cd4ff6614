// Converts programs to and from ProgramDef messages (proto/program.proto). common/strategy reads
// the text files.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

namespace pb {
class ProgramDef;
}

// Makes a Program of `def`. `batch` replaces leading -1 dimensions. Every operator is checked as in
// AppendOp. Error messages name the operator by `source` ("model.pbtxt") and its number.
StatusOr<Program> FromProto(const pb::ProgramDef& def, int64_t batch, const std::string& source);
// Writes `program` to `out`, which is cleared first. Temporaries are omitted, because FromProto
// infers them.
void ToProto(const Program& program, pb::ProgramDef* out);

}  // namespace tandem
