// Finds the patterns that exporters write if the model's opset has no node for an operator.
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
//   LayerNormalization   c / Sqrt(ReduceMean(c * c) + epsilon), c = x - ReduceMean(x), over one
//                        dimension; then * scale + bias, where these are initializers
//   RMSNormalization     the same with any other c
// A product with Reciprocal(Sqrt(...)) counts as the quotient. Returns the other nodes of the
// patterns, which are no longer used. They stay in `graph`.
std::set<const ::onnx::NodeProto*> FusePatterns(::onnx::GraphProto* graph);

}  // namespace tandem::onnx
