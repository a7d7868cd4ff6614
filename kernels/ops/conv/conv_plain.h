// Convolutions on the CPU as plain loops. conv2d and conv2d_transpose use them if no other kernel
// supports the case.
#pragma once

#include "kernels/ops/conv/conv2d.h"

namespace tandem::ops {

// Computes the output of a convolution. `bias` may be nullptr.
void PlainConv(const ConvShape& s, const float* in, const float* filter, const float* bias,
               float* out);
// Computes the gradients that are not nullptr: gin, gfilter and gbias. `g` is the gradient of the
// output. `in` is read for gfilter, and for gin if s.relu_first is set. `filter` is read for gin.
void PlainConvGrad(const ConvShape& s, const float* in, const float* filter, const float* g,
                   float* gin, float* gfilter, float* gbias);

}  // namespace tandem::ops
