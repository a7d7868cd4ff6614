// Converts the program of a ProgramBuilder to the text of a program file.
#pragma once

#include <string>

#include "kernels/graph/builder.h"
#include "kernels/graph/program_io.h"
#include "proto/program.pb.h"

namespace tandem {

// Finishes the builder and returns the text of its program.
inline std::string TextOf(graph::ProgramBuilder& builder) {
  pb::ProgramDef def;
  graph::ToProto(*builder.Finish(), &def);
  return def.Utf8DebugString();
}

}  // namespace tandem
