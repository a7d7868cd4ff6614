// Code shared by the optimizer operators. Each has the inputs
//   Param, Grad, its slots (state per parameter), LearningRate [1], Rows (if supported)
// and the outputs ParamOut and all slots.
//
// With Rows the gradient is sparse (sparse_rows.h): Param is [height, dim], Grad is the values [n,
// dim]. The result has the same bits as with the dense gradient. Rows that the update would not
// change are not touched. Operators whose update changes all rows have the attribute lazy_mode.
// With lazy_mode, rows that the gradient does not contain stay unchanged; this is cheaper, but a
// different algorithm.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// Checks types and infers shapes. `scalars`: the number of slots at the end that have one element
// instead of the parameter's shape.
Status InferOptimizer(const OpView& view, int scalars, std::span<TensorDesc> outputs);

// Positions of an optimizer's inputs.
inline size_t SlotsOf(const OpView& view) { return view.out_count() - 1; }
inline size_t LearningRateAt(size_t slots) { return 2 + slots; }
inline size_t RowsAt(size_t slots) { return 3 + slots; }

constexpr AttrDef LazyModeAttr() {
  return {"lazy_mode", false, "with Rows: leave the other rows as they are"};
}

}  // namespace tandem
