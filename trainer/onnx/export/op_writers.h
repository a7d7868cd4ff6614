// Converts operators of Tandem to ONNX nodes.
#pragma once

#include <string>

#include "kernels/graph/program.h"
#include "trainer/onnx/export/graph_writer.h"

namespace tandem::onnx {

// Adds the ONNX nodes that compute the operator `op` of `program`. UNIMPLEMENTED: ONNX has no form
// of the operator; the message says why.
Status WriteOp(const graph::Program& program, const ops::Op& op, GraphWriter& graph);

}  // namespace tandem::onnx
