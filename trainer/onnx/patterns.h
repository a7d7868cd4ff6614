// What exporters write where the model's opset has no node for an operator.
#pragma once

#include <set>

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace tandem::onnx {

// Makes one node, Gelu, LayerNormalization or RMSNormalization, of the last one of each such
// pattern in `graph`:
//   gelu                 x * 0.5 * (1 + Erf(x / sqrt 2)), the factors in any order
//   layer normalisation  c / Sqrt(ReduceMean(c * c) + epsilon), c = x - ReduceMean(x), over one
//                        dimension; * scale + bias, where these are initializers
//   normalisation by the root of the mean square: the same with any other c
// A product with Reciprocal(Sqrt(...)) is read as the quotient.
// Returns the other nodes of the patterns, which nobody needs any more. They stay where they are.
std::set<const ::onnx::NodeProto*> FusePatterns(::onnx::GraphProto* graph);

}  // namespace tandem::onnx
