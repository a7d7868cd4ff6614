// Kernels of products on AMX tiles (tile_gemm.h). REQUIRES: all tensors are f32.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PrepareTileMatmul(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareTileFc(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareTileFcGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
