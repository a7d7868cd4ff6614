#include <cmath>

#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

// Calls fn(element, channel) for every element of X.
template <typename Fn>
void ForEachElement(const Shape& x, const Fn& fn) {
  const auto plane = static_cast<size_t>(x.numel(2, x.rank()));
  const auto channels = static_cast<size_t>(x[1]);
  for (size_t i = 0; i < static_cast<size_t>(x.numel()); ++i) fn(i, i / plane % channels);
}

std::vector<Value> BatchNorm(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  const bool relu = a.op == "fused_bn_add_activation", test = a.Get<bool>("is_test");
  const double momentum = Rounded(a, "momentum"), epsilon = Rounded(a, "epsilon");
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x[1]);
  Value y = a.in[0], mean = Zeros({x[1]}), variance = mean, inv_std = mean;
  ForEachElement(x, [&](size_t i, size_t c) { mean.v[c] += a[0][i] / count; });
  ForEachElement(x, [&](size_t i, size_t c) {
    const double d = a[0][i] - mean.v[c];
    variance.v[c] += d * d / count;
  });
  Value mean_out = a.in[3], variance_out = a.in[4];
  for (size_t c = 0; c < mean.v.size(); ++c) {
    if (test) {
      mean.v[c] = a[3][c];
      variance.v[c] = a[4][c];
    }
    mean_out.v[c] = momentum * a[3][c] + (1 - momentum) * mean.v[c];
    variance_out.v[c] = momentum * a[4][c] + (1 - momentum) * variance.v[c];
    inv_std.v[c] = 1 / std::sqrt(variance.v[c] + epsilon);
  }
  ForEachElement(x, [&](size_t i, size_t c) {
    y.v[i] = (a[0][i] - mean.v[c]) * inv_std.v[c] * a[1][c] + a[2][c];
    if (a.Has(5)) y.v[i] += a[5][i];
    if (relu && y.v[i] < 0) y.v[i] = 0;
  });
  return {y, mean_out, variance_out, mean, inv_std};
}

std::vector<Value> BatchNormGrad(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  const bool relu = a.op == "fused_bn_add_activation_grad", test = a.Get<bool>("is_test");
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x[1]);
  Value gx = Zeros(x), gscale = Zeros({x[1]}), gbias = gscale, gz = a.in[4];
  if (relu) {
    ForEachElement(x, [&](size_t i, size_t) { gz.v[i] = a[5][i] > 0 ? a[4][i] : 0; });
  }
  const auto normal = [&](size_t i, size_t c) { return (a[0][i] - a[2][c]) * a[3][c]; };
  ForEachElement(x, [&](size_t i, size_t c) {
    gscale.v[c] += gz.v[i] * normal(i, c);
    gbias.v[c] += gz.v[i];
  });
  const size_t sums = relu ? 6 : 5, channels = static_cast<size_t>(x[1]);
  ForEachElement(x, [&](size_t i, size_t c) {
    double g = gz.v[i];
    if (a.Has(sums)) {
      const double all = a[sums][0] * count / static_cast<double>(x[0]);
      g -= a[sums][1 + c] / all + normal(i, c) * a[sums][1 + channels + c] * a[3][c] / all;
    } else if (!test) {
      g -= gbias.v[c] / count + normal(i, c) * gscale.v[c] / count;
    }
    gx.v[i] = a[1][c] * a[3][c] * g;
  });
  if (!relu) return {gx, gscale, gbias};
  return {gx, gscale, gbias, gz};
}

std::vector<Value> Moments(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  const auto channels = static_cast<size_t>(x[1]), columns = 2 * channels + 1;
  const double count = static_cast<double>(x.numel()) / static_cast<double>(x[1]);
  Value out = Zeros({a.Get<int64_t>("ranks"), static_cast<int64_t>(columns)});
  const size_t row = static_cast<size_t>(a.Get<int64_t>("rank")) * columns;
  out.v[row] = static_cast<double>(x[0]);
  ForEachElement(x, [&](size_t i, size_t c) { out.v[row + 1 + c] += a[0][i] / count; });
  ForEachElement(x, [&](size_t i, size_t c) {
    const double d = a[0][i] - out.v[row + 1 + c];
    out.v[row + 1 + channels + c] += d * d / count;
  });
  return {out};
}

std::vector<Value> GradSums(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  const auto channels = static_cast<size_t>(x[1]);
  Value out = Zeros({2 * x[1] + 1});
  out.v[0] = static_cast<double>(x[0]);
  ForEachElement(x, [&](size_t i, size_t c) {
    const double g = !a.Has(3) || a[3][i] > 0 ? a[2][i] : 0;
    out.v[1 + c] += g;
    out.v[1 + channels + c] += g * (a[0][i] - a[1][c]);
  });
  return {out};
}

}  // namespace

std::vector<Value> OracleBatchNorm(const OracleArgs& a) {
  const auto layout = a.Get<std::string>("data_layout");
  return InPlainLayout(a, BatchNorm, {{0, layout}, {5, layout}}, {{0, layout}});
}

std::vector<Value> OracleBatchNormGrad(const OracleArgs& a) {
  const auto layout = a.Get<std::string>("data_layout");
  return InPlainLayout(a, BatchNormGrad, {{0, layout}, {4, layout}, {5, layout}},
                       {{0, layout}, {3, layout}});
}

std::vector<Value> OracleBatchNormMoments(const OracleArgs& a) {
  return InPlainLayout(a, Moments, {{0, a.Get<std::string>("data_layout")}}, {});
}

std::vector<Value> OracleBatchNormGradSums(const OracleArgs& a) {
  const auto layout = a.Get<std::string>("data_layout");
  return InPlainLayout(a, GradSums, {{0, layout}, {2, layout}, {3, layout}}, {});
}

// Computes the variance over the samples of all ranks: the mean of the squared distances from the
// joint mean.
std::vector<Value> OracleBatchNormMerge(const OracleArgs& a) {
  const auto ranks = static_cast<size_t>(a.shape(0)[0]);
  const auto channels = static_cast<size_t>(a.shape(1)[0]), columns = 2 * channels + 1;
  const double momentum = Rounded(a, "momentum");
  Value mean = a.in[1], variance = a.in[2], mean_out = mean, variance_out = variance;
  for (size_t c = 0; c < channels; ++c) {
    const auto at = [&](size_t r, size_t column) { return a[0][r * columns + column]; };
    double n = 0, sum = 0, squares = 0;
    for (size_t r = 0; r < ranks; ++r) {
      n += at(r, 0);
      sum += at(r, 0) * at(r, 1 + c);
    }
    mean.v[c] = sum / n;
    for (size_t r = 0; r < ranks; ++r) {
      const double d = at(r, 1 + c) - mean.v[c];
      squares += at(r, 0) * (at(r, 1 + channels + c) + d * d);
    }
    variance.v[c] = squares / n;
    mean_out.v[c] = momentum * a[1][c] + (1 - momentum) * mean.v[c];
    variance_out.v[c] = momentum * a[2][c] + (1 - momentum) * variance.v[c];
  }
  return {mean, variance, mean_out, variance_out};
}

}  // namespace tandem::optest
