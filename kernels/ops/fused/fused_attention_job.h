// The shape, the loops and the dropout of an attention, which its CPU kernels share.
#pragma once

#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/elementwise/dropout.h"
#include "kernels/ops/fused/fused_attention.h"

namespace tandem::ops {

// A part of a matrix of weights [t, s].
struct WeightBlock {
  int64_t matrix, row, rows, column, columns;
};

// The inputs of one run. Q, K and V may be parts of one tensor.
struct AttentionInputs {
  const float *q, *k, *v;
  DropoutWords words;  // the random words of all weights [matrices, t, s]
};

struct AttentionJob {
  const MathLoops& math;
  const Loops& loops;
  AttentionShape shape;
  bool drop;  // whether weights are dropped
  uint64_t name;
  uint32_t drop_below;
  float drop_scale;

  // Returns the inputs of a run. INVALID_ARGUMENT: the input Position does not fit.
  StatusOr<AttentionInputs> Inputs(const KernelArgs& args) const;
  // Writes the factors of dropout for a block of weights, row by row: 0 or 1 / (1 - dropout_prob).
  // REQUIRES: block.columns <= kMaskColumnsMax.
  void Mask(const AttentionInputs& in, const WeightBlock& block, float* mask) const;
  static constexpr int64_t kMaskColumnsMax = 128;
};

// INVALID_ARGUMENT: as AttentionShapeOf.
StatusOr<AttentionJob> AttentionJobOf(const OpView& view);

}  // namespace tandem::ops
