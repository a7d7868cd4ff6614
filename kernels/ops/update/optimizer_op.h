// Helpers for the definitions of the optimizer operators. Each operator has the inputs Param, Grad,
// its slots (state per parameter), LearningRate [1] and, if supported, Rows. Its outputs are
// ParamOut and all slots.
//
// If Rows is present, the gradient is sparse (sparse_rows.h): Param is [height, dim], Grad contains
// the values [n, dim]. The result has the same bits as with the dense gradient. Rows that the
// update would not change are not accessed. Operators whose update changes all rows have the
// attribute lazy_mode. With lazy_mode, rows that the gradient does not contain stay unchanged. An
// update with lazy_mode is cheaper, but a different algorithm.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// The infer function of optimizers: checks types and infers shapes. `scalars`: number of slots, at
// the end, that have one element instead of the parameter's shape.
Status InferOptimizer(const OpView& view, int scalars, std::span<TensorDesc> outputs);

// SlotsOf returns the number of slots. LearningRateAt and RowsAt return the positions of the inputs
// LearningRate and Rows.
inline size_t SlotsOf(const OpView& view) { return view.out_count() - 1; }
inline size_t LearningRateAt(size_t slots) { return 2 + slots; }
inline size_t RowsAt(size_t slots) { return 3 + slots; }

constexpr AttrDef LazyModeAttr() {
  return {"lazy_mode", false, "with Rows: leave the other rows as they are"};
}

}  // namespace tandem::ops
