// Converts programs to and from ProgramDef messages (proto/program.proto). common/strategy reads
// the text files.
#pragma once

#include "kernels/graph/program.h"

namespace tandem::pb {
class ProgramDef;
}  // namespace tandem::pb

namespace tandem::graph {

// Makes a Program from `def`. Dimensions of -1 at the first position become `batch`. Every operator
// is checked as in AppendOp. Error messages name an operator by `source` ("model.pbtxt") and its
// number.
StatusOr<Program> FromProto(const pb::ProgramDef& def, int64_t batch, const std::string& source);
// Writes `program` to `out`, which is cleared first. Temporaries are omitted: FromProto infers
// them.
void ToProto(const Program& program, pb::ProgramDef* out);

}  // namespace tandem::graph
