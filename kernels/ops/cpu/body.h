// Runs several elementwise operators block by block, so that intermediate values stay in the cache.
// Used for the body of a fused operator and for an operator between two casts.
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

// A value of the body: an input of the whole, or an output of one of its operators.
struct BodyValue {
  TensorDesc desc;
  int in = -1;   // position among the inputs of the whole; -1: no input
  int out = -1;  // position among the outputs of the whole; -1: internal value
};

struct BodyStep {
  const Op* op;
  const OpDef* def;
  std::vector<int> in, out;  // indices in Body::values by position; -1: absent
  int group = 0;
};

// Steps that touch the same tensor, which one of them writes, are in one group. All tensors of a
// group have the same shape, except tensors of one element. Groups are independent of each other.
struct Body {
  std::vector<BodyValue> values;
  std::vector<BodyStep> steps;    // in order
  std::vector<int64_t> elements;  // tensor size of each group
};

// Returns a kernel that runs the steps on each block. One thread runs each block.
StatusOr<Kernel> PrepareBody(const Body& body, int threads);

}  // namespace tandem
