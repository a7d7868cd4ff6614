// Operators as nodes of ONNX.
#pragma once

#include <string>

#include "kernels/graph/program.h"
#include "trainer/onnx/graph_writer.h"

namespace tandem::onnx {

// Adds the nodes that compute what `op` of `program` does. UNIMPLEMENTED with the reason where ONNX
// has no form of it.
Status WriteOnnxOp(const Program& program, const Op& op, OnnxGraphWriter& graph);

}  // namespace tandem::onnx
