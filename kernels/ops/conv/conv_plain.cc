#include "kernels/ops/conv/conv_plain.h"

#include <algorithm>

namespace tandem::ops {
namespace {

// Calls fn(filter index, input index) for every product in the sum of output element (n, o, y, x).
template <typename Fn>
void ForEachTap(const ConvShape& s, int64_t n, int64_t o, int64_t y, int64_t x, const Fn& fn) {
  const int64_t channels = s.in_c / s.groups;
  const int64_t first = o / (s.out_c / s.groups) * channels;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < s.kernel[0]; ++i) {
      const int64_t row = y * s.stride[0] - s.pad[0] + i * s.dilation[0];
      if (row < 0 || row >= s.in[0]) continue;
      for (int64_t j = 0; j < s.kernel[1]; ++j) {
        const int64_t col = x * s.stride[1] - s.pad[1] + j * s.dilation[1];
        if (col < 0 || col >= s.in[1]) continue;
        fn(((o * channels + c) * s.kernel[0] + i) * s.kernel[1] + j,
           ((n * s.in_c + first + c) * s.in[0] + row) * s.in[1] + col);
      }
    }
  }
}

// Calls fn(n, o, y, x, index) for every element of the output. `index`: position of the element in
// memory.
template <typename Fn>
void ForEachOutput(const ConvShape& s, const Fn& fn) {
  int64_t at = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_c; ++o) {
      for (int64_t y = 0; y < s.out[0]; ++y) {
        for (int64_t x = 0; x < s.out[1]; ++x) fn(n, o, y, x, at++);
      }
    }
  }
}

// Returns input element x, after relu if s.relu_first is set.
float Seen(const ConvShape& s, float x) { return s.relu_first && 0.0f > x ? 0.0f : x; }

}  // namespace

void PlainConv(const ConvShape& s, const float* in, const float* filter, const float* bias,
               float* out) {
  ForEachOutput(s, [&](int64_t n, int64_t o, int64_t y, int64_t x, int64_t at) {
    float sum = bias == nullptr ? 0.0f : bias[o];
    ForEachTap(s, n, o, y, x, [&](int64_t f, int64_t i) { sum += filter[f] * Seen(s, in[i]); });
    out[at] = sum;
  });
}

void PlainConvGrad(const ConvShape& s, const float* in, const float* filter, const float* g,
                   float* gin, float* gfilter, float* gbias) {
  if (gin != nullptr) std::fill_n(gin, s.batch * s.in_c * s.in_plane(), 0.0f);
  if (gfilter != nullptr) std::fill_n(gfilter, s.out_c * s.taps(), 0.0f);
  if (gbias != nullptr) std::fill_n(gbias, s.out_c, 0.0f);
  ForEachOutput(s, [&](int64_t n, int64_t o, int64_t y, int64_t x, int64_t at) {
    if (gbias != nullptr) gbias[o] += g[at];
    ForEachTap(s, n, o, y, x, [&](int64_t f, int64_t i) {
      if (gin != nullptr && !(s.relu_first && 0.0f > in[i])) gin[i] += filter[f] * g[at];
      if (gfilter != nullptr) gfilter[f] += Seen(s, in[i]) * g[at];
    });
  });
}

}  // namespace tandem::ops
