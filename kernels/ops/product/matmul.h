// Sizes of a (batched) matrix product.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// out[b] [m, n] = alpha op(x[b]) op(y[b]) for each of `batch` pairs. op(x[b]) is [m, k].
struct MatmulSizes {
  int64_t batch, m, n, k;
  bool trans_x, trans_y;
  float alpha;
};

// Returns the sizes from inputs 0 and 1 and the attributes trans_x, trans_y and alpha.
StatusOr<MatmulSizes> MatmulSizesOf(const OpView& view);

}  // namespace tandem
