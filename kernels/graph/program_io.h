// Programs as ProgramDef messages (proto/program.proto). Reading text files is
// common/strategy's work; this turns the message into a Program and back.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

class ProgramDef;

// `batch` binds leading -1 dimensions. Every operator is checked as AppendOp does; `source` is put
// in front of each message ("model.pbtxt").
StatusOr<Program> FromProto(const ProgramDef& def, int64_t batch, const std::string& source);
// `out` is cleared first. Shapes of kTemp variables are left out.
void ToProto(const Program& program, ProgramDef* out);

}  // namespace tandem
