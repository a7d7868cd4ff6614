// Fuzz target: programs as text. The target parses a text, infers shapes, adds gradients and an
// optimizer, and saves the program.
#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/program_text.h"

namespace tandem {
namespace {

bool Accepts(std::string_view input) {
  graph::Program program;
  const Status status = BuildProgram(std::string(input), &program);
  CHECK(status.ok() || !status.message().empty());
  if (!status.ok()) return false;
  pb::ProgramDef def;
  ToProto(program, &def);
  CHECK_GT(def.ByteSizeLong(), 0u);
  return true;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  return {{kProgramText}, {std::begin(kProgramPieces), std::end(kProgramPieces)}, Accepts};
}

}  // namespace tandem
