// Convolutions as plain loops: the last choice of conv2d and conv2d_transpose.
#pragma once

#include "kernels/ops/conv/conv2d.h"

namespace tandem {

// `bias` may be nullptr.
void PlainConv(const ConvShape& s, const float* in, const float* filter, const float* bias,
               float* out);
// Gradients for `g`, that of the output; those that are nullptr are not computed. `in` is read for
// gfilter, and for gin where s.relu_first; `filter` for gin.
void PlainConvGrad(const ConvShape& s, const float* in, const float* filter, const float* g,
                   float* gin, float* gfilter, float* gbias);

}  // namespace tandem
