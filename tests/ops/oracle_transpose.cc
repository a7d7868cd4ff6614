#include <functional>

#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

size_t At(const Shape& s, int64_t n, int64_t c, int64_t y, int64_t x) {
  return static_cast<size_t>(((n * s[1] + c) * s[2] + y) * s[3] + x);
}

Shape OutShape(const OracleArgs& a) {
  const Shape &x = a.shape(0), &w = a.shape(1);
  const auto stride = a.Get<Ints>("strides"), pad = a.Get<Ints>("paddings");
  const auto dilation = a.Get<Ints>("dilations"), more = a.Get<Ints>("output_padding");
  Shape out{x[0], w[1] * a.Get<int64_t>("groups"), 0, 0};
  for (int d = 0; d < 2; ++d) {
    out[2 + d] =
        (x[2 + d] - 1) * stride[d] - 2 * pad[d] + dilation[d] * (w[2 + d] - 1) + 1 + more[d];
  }
  return out;
}

// Calls fn(output element, filter element, input element) for every product that the transposed
// convolution adds to Output.
void ForEachStroke(const OracleArgs& a, const Shape& out,
                   const std::function<void(size_t, size_t, size_t)>& fn) {
  const Shape &x = a.shape(0), &w = a.shape(1);
  const auto stride = a.Get<Ints>("strides"), pad = a.Get<Ints>("paddings");
  const auto dilation = a.Get<Ints>("dilations");
  const int64_t per_group = x[1] / a.Get<int64_t>("groups");
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t m = 0; m < x[1]; ++m) {
      for (int64_t c = 0; c < w[1]; ++c) {
        for (int64_t i = 0; i < w[2] * w[3]; ++i) {
          for (int64_t p = 0; p < x[2] * x[3]; ++p) {
            const int64_t row = p / x[3] * stride[0] - pad[0] + i / w[3] * dilation[0];
            const int64_t col = p % x[3] * stride[1] - pad[1] + i % w[3] * dilation[1];
            if (row < 0 || col < 0 || row >= out[2] || col >= out[3]) continue;
            fn(At(out, n, m / per_group * w[1] + c, row, col), At(w, m, c, i / w[3], i % w[3]),
               At(x, n, m, p / x[3], p % x[3]));
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<Value> OracleConv2dTranspose(const OracleArgs& a) {
  Value out = Zeros(OutShape(a));
  ForEachStroke(a, out.desc.shape,
                [&](size_t o, size_t f, size_t i) { out.v[o] += a[0][i] * a[1][f]; });
  return {out};
}

std::vector<Value> OracleConv2dTransposeGrad(const OracleArgs& a) {
  Value gx = Zeros(a.shape(0)), gw = Zeros(a.shape(1));
  ForEachStroke(a, a.shape(2), [&](size_t o, size_t f, size_t i) {
    gx.v[i] += a[2][o] * a[1][f];
    gw.v[f] += a[2][o] * a[0][i];
  });
  return {gx, gw};
}

}  // namespace tandem::optest
