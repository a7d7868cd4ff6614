// Elementwise operators that run together, block after block, with what they pass to each other in
// the cache: the body of a fused operator, and an operator between two casts.
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

// A value inside: an input of the whole, or the output of an operator of the body.
struct BodyValue {
  TensorDesc desc;
  int in = -1;   // position among the inputs of the whole
  int out = -1;  // position among its outputs; -1: a value that only the body sees
};

struct BodyStep {
  const Op* op;
  const OpDef* def;
  std::vector<int> in, out;  // indices of Body::values by position; -1: absent
  int group = 0;
};

// Steps that touch the same tensor, which one of them writes, are of one group: all its tensors
// have the same shape, besides those of one element. Groups have nothing to do with each other.
struct Body {
  std::vector<BodyValue> values;
  std::vector<BodyStep> steps;    // in order
  std::vector<int64_t> elements;  // of the tensors of each group
};

// A kernel that runs the steps on each block, each block on one thread.
StatusOr<Kernel> PrepareBody(const Body& body, int threads);

}  // namespace tandem
