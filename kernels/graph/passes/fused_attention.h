// The pass fused_attention: the products and the softmax of attention become one operator
// (kernels/ops/fused/fused_attention.cc), which stores no matrix of weights.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Replaces matmul(Q, K^T), softmax, an optional dropout and matmul(weights, V) by fused_attention.
// If one transpose and one split make Q, K and V from a tensor [batch, t, 3, heads, dim], and one
// transpose and one reshape follow the product, the operator reads and writes these tensors itself.
StatusOr<PassOutcome> FuseAttention(Program& program, PassContext& context);

}  // namespace tandem::graph
