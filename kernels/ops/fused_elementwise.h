// The body of a fused operator, bound to its tensors: which value each operator inside reads and
// writes, and which of them must run together.
#pragma once

#include <vector>

#include "kernels/ops/op.h"

namespace tandem {

// A value inside: an input of the fused operator, or what one operator of the body writes.
struct BodyValue {
  TensorDesc desc;
  int in = -1;   // position among the fused operator's inputs
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

// INVALID_ARGUMENT, naming the operator, when the body reads what nobody wrote, an operator in it
// is not elementwise (OpDef::elementwise), its shapes differ, or a one-element result is used
// inside.
StatusOr<Body> BindBody(const OpView& view);

// A kernel that carries out the steps block after block, each block on one thread.
StatusOr<Kernel> PrepareBody(const Body& body, int threads);

}  // namespace tandem
