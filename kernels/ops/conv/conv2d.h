// The shape of a two-dimensional convolution, used by the definition of conv2d and by its kernels.
#pragma once

#include <cstdint>

#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/core/op.h"

namespace tandem::ops {

// The sizes and settings of a convolution. Images are NCHW, filters OIHW with I = channels /
// groups. In each pair, index 0 is vertical and index 1 is horizontal.
struct ConvShape {
  int64_t batch, in_c, out_c, groups;
  int64_t in[2], out[2], kernel[2], stride[2], pad[2], dilation[2];
  // The memory layouts of the operator's Input and Output.
  ImageLayout in_layout = ImageLayout::kPlain, out_layout = ImageLayout::kPlain;
  bool winograd = false;    // use Winograd's algorithm if it is available
  bool relu_first = false;  // apply relu to Input before the convolution
  bool plain() const {
    return in_layout == ImageLayout::kPlain && out_layout == ImageLayout::kPlain;
  }
  constexpr int64_t in_plane() const { return in[0] * in[1]; }
  constexpr int64_t out_plane() const { return out[0] * out[1]; }
  // Returns the number of filter weights per output channel.
  int64_t taps() const { return in_c / groups * kernel[0] * kernel[1]; }
};

// Returns the shape of the convolution that `view`, a conv2d or conv2d_grad, computes.
StatusOr<ConvShape> ConvShapeOf(const OpView& view);

// Returns the shape of the convolution that conv2d_transpose or its gradient inverts. Input 0
// (Input) of these operators is the output of that convolution. conv2d_transpose computes the input
// of that convolution.
StatusOr<ConvShape> ConvTransposeShapeOf(const OpView& view);

}  // namespace tandem::ops
