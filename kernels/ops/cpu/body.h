// Runs several elementwise operators block by block, so that intermediate values stay in the cache.
// Two kinds of kernels use these functions: fused operators, and f32 operators on 16-bit tensors
// (half.h).
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// A value in the computation of a body: an input of the kernel, or an output of one of the body's
// operators.
struct BodyValue {
  TensorDesc desc;
  int in = -1;   // position among the inputs of the kernel; -1: not an input
  int out = -1;  // position among the outputs of the kernel; -1: an internal value
};

struct BodyStep {
  const Op* op;
  const OpDef* def;
  std::vector<int> in, out;  // by position: index in Body::values; -1: the tensor is absent
  int group = 0;
};

// A list of elementwise operators that one kernel runs. Each step runs one operator. Steps that use
// the same tensor are in one group if one of the steps writes the tensor. All tensors of a group
// have the same shape, except tensors of one element. Groups are independent of each other.
struct Body {
  std::vector<BodyValue> values;
  std::vector<BodyStep> steps;    // in the order in which they run
  std::vector<int64_t> elements;  // by group: number of elements of its tensors
};

// Returns a kernel that runs all steps on one block after another. One thread runs all steps of a
// block.
StatusOr<Kernel> PrepareBody(const Body& body, int threads);

}  // namespace tandem::ops
