// The sizes of a matrix product or of a batch of matrix products.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Sizes and settings of out[b] = alpha op(x[b]) op(y[b]), for b in [0, batch). out[b] is [m, n],
// op(x[b]) is [m, k], op(y[b]) is [k, n].
struct MatmulSizes {
  int64_t batch, m, n, k;
  bool trans_x, trans_y;
  float alpha;
};

// Returns the sizes of a matmul, from the shapes of inputs 0 and 1 and the attributes trans_x,
// trans_y and alpha.
StatusOr<MatmulSizes> MatmulSizesOf(const OpView& view);

}  // namespace tandem::ops
