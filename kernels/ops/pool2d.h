// Shapes of a two-dimensional pooling, shared by its definition and its kernels.
#pragma once

#include <cstdint>

#include "kernels/ops/op.h"

namespace tandem {

// `planes` = batch x channels. Index 0 is vertical, 1 horizontal. Every window holds at least one
// element of the plane.
struct PoolShape {
  int64_t planes;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
  bool max;        // else average
  bool exclusive;  // averages divide by the elements inside the plane, not by the window's size
  int64_t in_plane() const { return in[0] * in[1]; }
  int64_t out_plane() const { return out[0] * out[1]; }
};

// From input 0 (X) and the attributes of pool2d or pool2d_grad.
StatusOr<PoolShape> PoolShapeOf(const OpView& view);

}  // namespace tandem
