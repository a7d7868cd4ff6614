// What the optimizer operators share. Each has the inputs
//   Param, Grad, its slots (state kept per parameter), LearningRate [1], Rows (those that take it)
// and the outputs ParamOut and every slot again.
//
// With Rows the gradient is sparse (sparse_rows.h): Param is [height, dim], Grad the values [n,
// dim]. The result is that of the dense gradient, in the same bits; rows whose update would change
// nothing are not touched. Operators for which that is no row have the attribute lazy_mode: with it
// the rows that the gradient lacks stay as they are, which is cheaper and another algorithm.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// Shapes and types. `scalars`: the last so many slots have one element instead of the parameter's
// shape.
Status InferOptimizer(const OpView& view, int scalars, std::span<TensorDesc> outputs);

// Positions of an optimizer's inputs.
inline size_t SlotsOf(const OpView& view) { return view.out_count() - 1; }
inline size_t LearningRateAt(size_t slots) { return 2 + slots; }
inline size_t RowsAt(size_t slots) { return 3 + slots; }

AttrDef LazyModeAttr();

}  // namespace tandem
