// The shape of a two-dimensional pooling, used by the definition of pool2d and by its kernels.
#pragma once

#include <cstdint>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op.h"
#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {

// The sizes and settings of a pooling. `planes` is batch x channels. In each pair, index 0 is
// vertical and index 1 is horizontal. Every window contains at least one element of the plane.
struct PoolShape {
  int64_t planes;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
  bool max;  // true: maximum of each window; false: average
  // If true, an average is over the elements inside the plane. If false, the average is over the
  // full size of the window.
  bool exclusive;
  ImageLayout layout;
  int64_t in_plane() const { return in[0] * in[1]; }
  int64_t out_plane() const { return out[0] * out[1]; }
};

// The part of a window that is inside the plane: rows [top, bottom), columns [left, right).
struct PoolWindow {
  int64_t top, bottom, left, right;
  int64_t size() const { return (bottom - top) * (right - left); }
};

// Returns the window of output element (y, x).
TD_HD PoolWindow WindowAt(const PoolShape& s, int64_t y, int64_t x) {
  const int64_t top = y * s.stride[0] - s.pad[0], left = x * s.stride[1] - s.pad[1];
  const int64_t bottom = top + s.kernel[0], right = left + s.kernel[1];
  return {top > 0 ? top : 0, bottom < s.in[0] ? bottom : s.in[0], left > 0 ? left : 0,
          right < s.in[1] ? right : s.in[1]};
}
// Returns the number by which the sum over window `w` is divided to get its average.
TD_HD float PoolDivisor(const PoolShape& s, const PoolWindow& w) {
  return static_cast<float>(s.exclusive ? (w.bottom - w.top) * (w.right - w.left)
                                        : s.kernel[0] * s.kernel[1]);
}

// Returns the shape of the pooling that `view`, a pool2d or pool2d_grad, computes.
StatusOr<PoolShape> PoolShapeOf(const OpView& view);

}  // namespace tandem::ops
