#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;

size_t At4(const Shape& s, int64_t a, int64_t b, int64_t c, int64_t d) {
  return static_cast<size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d);
}

Shape ConvOutShape(const OracleArgs& a) {
  const Shape &x = a.shape(0), &w = a.shape(1);
  const auto stride = a.Get<Ints>("strides"), pad = a.Get<Ints>("paddings");
  const auto dilation = a.Get<Ints>("dilations");
  Shape out{x[0], w[0], 0, 0};
  for (int d = 0; d < 2; ++d) {
    // The last position is the last one at which the whole kernel is inside the padded plane.
    const int64_t span = dilation[d] * (w[2 + d] - 1);
    for (int64_t at = 0; at + span < x[2 + d] + 2 * pad[d]; at += stride[d]) ++out[2 + d];
  }
  return out;
}

// Calls fn(output element, filter element, input element) for every product that the definition
// sums.
void ForEachProduct(const OracleArgs& a, const Shape& out,
                    const std::function<void(size_t, size_t, size_t)>& fn) {
  const Shape &x = a.shape(0), &w = a.shape(1);
  const auto stride = a.Get<Ints>("strides"), pad = a.Get<Ints>("paddings");
  const auto dilation = a.Get<Ints>("dilations");
  const int64_t per_group = out[1] / a.Get<int64_t>("groups");
  for (int64_t n = 0; n < out[0]; ++n) {
    for (int64_t m = 0; m < out[1]; ++m) {
      const int64_t first = m / per_group * w[1];
      for (int64_t c = 0; c < w[1]; ++c) {
        for (int64_t kh = 0; kh < w[2]; ++kh) {
          for (int64_t kw = 0; kw < w[3]; ++kw) {
            for (int64_t y = 0; y < out[2]; ++y) {
              const int64_t row = y * stride[0] + kh * dilation[0] - pad[0];
              if (row < 0 || row >= x[2]) continue;
              for (int64_t z = 0; z < out[3]; ++z) {
                const int64_t col = z * stride[1] + kw * dilation[1] - pad[1];
                if (col < 0 || col >= x[3]) continue;
                fn(At4(out, n, m, y, z), At4(w, m, c, kh, kw), At4(x, n, first + c, row, col));
              }
            }
          }
        }
      }
    }
  }
}

struct PoolArgs {
  bool max, exclusive;
  Ints kernel, stride, pad;
  Shape out;
};

PoolArgs PoolArgsOf(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  PoolArgs p{a.Get<std::string>("pooling_type") == "max",
             a.Get<bool>("exclusive"),
             a.Get<Ints>("ksize"),
             a.Get<Ints>("strides"),
             a.Get<Ints>("paddings"),
             {x[0], x[1], 0, 0}};
  if (a.Get<bool>("global_pooling")) {
    p.kernel = {x[2], x[3]};
    p.stride = {1, 1};
    p.pad = {0, 0};
  }
  for (int d = 0; d < 2; ++d) {
    for (int64_t at = 0; at + p.kernel[d] <= x[2 + d] + 2 * p.pad[d]; at += p.stride[d]) {
      ++p.out[2 + d];
    }
  }
  return p;
}

// Calls fn(output element, input elements) for every window. The input elements are those inside
// the plane, in row-major order.
void ForEachWindow(const OracleArgs& a, const PoolArgs& p,
                   const std::function<void(size_t, const std::vector<size_t>&)>& fn) {
  const Shape& x = a.shape(0);
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t c = 0; c < x[1]; ++c) {
      for (int64_t y = 0; y < p.out[2]; ++y) {
        for (int64_t z = 0; z < p.out[3]; ++z) {
          std::vector<size_t> inside;
          for (int64_t i = 0; i < p.kernel[0]; ++i) {
            for (int64_t j = 0; j < p.kernel[1]; ++j) {
              const int64_t row = y * p.stride[0] - p.pad[0] + i;
              const int64_t col = z * p.stride[1] - p.pad[1] + j;
              if (row < 0 || col < 0 || row >= x[2] || col >= x[3]) continue;
              inside.push_back(At4(x, n, c, row, col));
            }
          }
          fn(At4(p.out, n, c, y, z), inside);
        }
      }
    }
  }
}

double Count(const PoolArgs& p, size_t inside) {
  return p.exclusive ? static_cast<double>(inside) : static_cast<double>(p.kernel[0] * p.kernel[1]);
}

size_t ArgMax(const std::vector<double>& x, const std::vector<size_t>& window) {
  size_t best = window[0];
  for (const size_t i : window) best = x[i] > x[best] ? i : best;
  return best;
}

// Returns element i of Input as the filter reads it, after relu if relu is fused.
double Seen(const OracleArgs& a, size_t i) {
  return a.Get<bool>("fuse_relu_before_depthwise_conv") ? std::max(a[0][i], 0.0) : a[0][i];
}

std::vector<Value> Conv2d(const OracleArgs& a) {
  Value out = Zeros(ConvOutShape(a));
  const Shape& s = out.desc.shape;
  const auto plane = static_cast<size_t>(s[2] * s[3]);
  if (a.Has(2)) {
    for (size_t i = 0; i < out.v.size(); ++i) {
      out.v[i] = a[2][i / plane % static_cast<size_t>(s[1])];
    }
  }
  ForEachProduct(a, s, [&](size_t o, size_t f, size_t i) { out.v[o] += a[1][f] * Seen(a, i); });
  return {out};
}

std::vector<Value> Conv2dGrad(const OracleArgs& a) {
  const Shape& s = a.shape(2);
  const auto plane = static_cast<size_t>(s[2] * s[3]);
  Value gx = Zeros(a.shape(0)), gw = Zeros(a.shape(1)), gb = Zeros({s[1]});
  ForEachProduct(a, s, [&](size_t o, size_t f, size_t i) {
    if (Seen(a, i) == a[0][i]) gx.v[i] += a[1][f] * a[2][o];
    gw.v[f] += Seen(a, i) * a[2][o];
  });
  for (size_t i = 0; i < a[2].size(); ++i) gb.v[i / plane % gb.v.size()] += a[2][i];
  return {gx, gw, gb};
}

std::vector<Value> Pool2d(const OracleArgs& a) {
  const PoolArgs p = PoolArgsOf(a);
  Value out = Zeros(p.out);
  ForEachWindow(a, p, [&](size_t o, const std::vector<size_t>& window) {
    if (p.max) {
      out.v[o] = a[0][ArgMax(a[0], window)];
      return;
    }
    for (const size_t i : window) out.v[o] += a[0][i];
    out.v[o] /= Count(p, window.size());
  });
  return {out};
}

std::vector<Value> Pool2dGrad(const OracleArgs& a) {
  const PoolArgs p = PoolArgsOf(a);
  Value gx = Zeros(a.shape(0));
  ForEachWindow(a, p, [&](size_t o, const std::vector<size_t>& window) {
    if (p.max) {
      gx.v[ArgMax(a[0], window)] += a[2][o];
      return;
    }
    for (const size_t i : window) gx.v[i] += a[2][o] / Count(p, window.size());
  });
  return {gx};
}

// Returns the index of pixel p in channel c of image n, in the given layout.
size_t PlaceOf(const std::string& layout, const Shape& s, int64_t n, int64_t c, int64_t p) {
  const int64_t plane = s[2] * s[3], image = n * s[1] * plane;
  if (layout == "nChw16c") return static_cast<size_t>(image + (c / 16 * plane + p) * 16 + c % 16);
  if (layout == "NHWC") return static_cast<size_t>(image + p * s[1] + c);
  return static_cast<size_t>(image + c * plane + p);
}

Value Reordered(const Value& value, const std::string& from, const std::string& to) {
  const Shape& s = value.desc.shape;
  Value result = value;
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t p = 0; p < s[2] * s[3]; ++p) {
        result.v[PlaceOf(to, s, n, c, p)] = value.v[PlaceOf(from, s, n, c, p)];
      }
    }
  }
  return result;
}

}  // namespace

std::vector<Value> InPlainLayout(const OracleArgs& a, Oracle oracle, const Layouts& in,
                                 const Layouts& out) {
  std::vector<Value> inputs(a.in.begin(), a.in.end());
  for (const auto& [i, layout] : in) {
    const bool there = layout != "NCHW" && i < inputs.size() && a.Has(i);
    if (there) inputs[i] = Reordered(inputs[i], layout, "NCHW");
  }
  std::vector<Value> outputs = oracle(OracleArgs{a.attrs, a.op, inputs, a.body});
  for (const auto& [i, layout] : out) {
    const bool there = layout != "NCHW" && i < outputs.size();
    if (there) outputs[i] = Reordered(outputs[i], "NCHW", layout);
  }
  return outputs;
}

std::vector<Value> OracleReorder(const OracleArgs& a) {
  return {Reordered(a.in[0], a.Get<std::string>("from"), a.Get<std::string>("to"))};
}

std::vector<Value> OracleConv2d(const OracleArgs& a) {
  return InPlainLayout(a, Conv2d, {{0, a.Get<std::string>("input_layout")}},
                       {{0, a.Get<std::string>("output_layout")}});
}

std::vector<Value> OracleConv2dRelu(const OracleArgs& a) {
  std::vector<Value> outputs = OracleConv2d(a);
  for (double& v : outputs[0].v) v = std::max(v, 0.0);
  return outputs;
}

std::vector<Value> OracleConv2dGrad(const OracleArgs& a) {
  const auto x = a.Get<std::string>("input_layout");
  return InPlainLayout(a, Conv2dGrad, {{0, x}, {2, a.Get<std::string>("output_layout")}}, {{0, x}});
}

std::vector<Value> OraclePool2d(const OracleArgs& a) {
  const auto layout = a.Get<std::string>("data_layout");
  return InPlainLayout(a, Pool2d, {{0, layout}}, {{0, layout}});
}

std::vector<Value> OraclePool2dGrad(const OracleArgs& a) {
  const auto layout = a.Get<std::string>("data_layout");
  return InPlainLayout(a, Pool2dGrad, {{0, layout}, {1, layout}, {2, layout}}, {{0, layout}});
}

std::vector<Value> OracleSampleImage(const OracleArgs& a) {
  const int64_t n = a.shape(2)[0], size = a.shape(2)[2];
  const bool last = a.Get<bool>("channels_last");
  const auto scale = a.Get<std::vector<double>>("scale"), bias = a.Get<std::vector<double>>("bias");
  Value out = Zeros(last ? Shape{n, size, size, 3} : Shape{n, 3, size, size},
                    *ParseDType(a.Get<std::string>("out_dtype")));
  const auto tap = [&](int64_t i, bool column, int64_t k) {
    const auto packed =
        static_cast<int64_t>(a[2][static_cast<size_t>((i * 2 + (column ? 1 : 0)) * size + k)]);
    return std::pair(packed / 512, static_cast<double>(packed % 512) / 256);
  };
  for (size_t at = 0; at < out.v.size(); ++at) {
    const auto e = static_cast<int64_t>(at);
    const int64_t i = e / (3 * size * size), c = last ? e % 3 : e / (size * size) % 3;
    const int64_t y = last ? e / 3 / size % size : e / size % size;
    const int64_t x = last ? e / 3 % size : e % size;
    const auto* image = &a[1][static_cast<size_t>(i * 3)];
    const auto width = static_cast<int64_t>(image[1]), height = static_cast<int64_t>(image[2]);
    const auto pixel = [&](int64_t row, int64_t column) {
      row = std::min(row, height - 1);
      column = std::min(column, width - 1);
      return a[0][static_cast<size_t>(static_cast<int64_t>(image[0]) + (row * width + column) * 3 +
                                      c)];
    };
    const auto [row, down] = tap(i, false, y);
    const auto [column, right] = tap(i, true, x);
    const double upper = pixel(row, column) * (1 - right) + pixel(row, column + 1) * right;
    const double lower = pixel(row + 1, column) * (1 - right) + pixel(row + 1, column + 1) * right;
    const auto channel = static_cast<size_t>(c);
    out.v[at] = (upper * (1 - down) + lower * down) * scale[channel] + bias[channel];
  }
  return {out};
}

}  // namespace tandem::optest
