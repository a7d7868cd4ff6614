// The shape of a two-dimensional pooling, shared by its definition and its kernels.
#pragma once

#include <cstdint>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op.h"
#include "kernels/ops/formulas/host_device.h"

namespace tandem {

// `planes` = batch x channels. Index 0 is vertical, 1 horizontal. Every window contains at least
// one element of the plane.
struct PoolShape {
  int64_t planes;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
  bool max;        // false: average
  bool exclusive;  // averages divide by the elements inside the plane, not the window's size
  ImageLayout layout;
  int64_t in_plane() const { return in[0] * in[1]; }
  int64_t out_plane() const { return out[0] * out[1]; }
};

// The part of a window inside the plane: rows [top, bottom), columns [left, right).
struct PoolWindow {
  int64_t top, bottom, left, right;
  int64_t size() const { return (bottom - top) * (right - left); }
};

// Returns the window of output (y, x).
TD_HD PoolWindow WindowAt(const PoolShape& s, int64_t y, int64_t x) {
  const int64_t top = y * s.stride[0] - s.pad[0], left = x * s.stride[1] - s.pad[1];
  const int64_t bottom = top + s.kernel[0], right = left + s.kernel[1];
  return {top > 0 ? top : 0, bottom < s.in[0] ? bottom : s.in[0], left > 0 ? left : 0,
          right < s.in[1] ? right : s.in[1]};
}
// Returns the divisor for the sum over a window.
TD_HD float PoolDivisor(const PoolShape& s, const PoolWindow& w) {
  return static_cast<float>(s.exclusive ? (w.bottom - w.top) * (w.right - w.left)
                                        : s.kernel[0] * s.kernel[1]);
}

// Returns the shape from input 0 (X) and the attributes of pool2d or pool2d_grad.
StatusOr<PoolShape> PoolShapeOf(const OpView& view);

}  // namespace tandem
