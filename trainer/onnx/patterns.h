// Finds the groups of nodes that exporters write if the model's opset has no single node for an
// operator.
#pragma once

#include <set>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tandem::onnx {

// Replaces each pattern in `graph` by one node: Gelu, LayerNormalization or RMSNormalization. The
// last node of the pattern becomes this node. The patterns are:
//   Gelu                 x * 0.5 * (1 + Erf(x / sqrt 2)), with the factors in any order
//   LayerNormalization   c / Sqrt(ReduceMean(c * c) + epsilon) with c = x - ReduceMean(x), over one
//                        dimension; optionally * scale + bias, if both are initializers
//   RMSNormalization     c / Sqrt(ReduceMean(c * c) + epsilon) with any other c
// A product with Reciprocal(Sqrt(...)) is treated as a quotient. Returns the other nodes of the
// patterns, which are no longer used but still in `graph`.
std::set<const ::onnx::NodeProto*> FusePatterns(::onnx::GraphProto* graph);

}  // namespace tandem::onnx
