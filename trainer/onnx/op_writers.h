// Converts operators to ONNX nodes.
#pragma once

#include <string>

#include "kernels/graph/program.h"
#include "trainer/onnx/graph_writer.h"

namespace tandem::onnx {

// Adds the nodes that compute `op` of `program`. UNIMPLEMENTED (with the reason): ONNX has no form
// of it.
Status WriteOp(const Program& program, const Op& op, GraphWriter& graph);

}  // namespace tandem::onnx
