#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/rng.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Values = std::vector<Value>;

constexpr double kTanhFactor = 0.044715;

double Inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + kTanhFactor * x * x * x); }

double Activated(const OracleArgs& a, double x) {
  if (a.op.starts_with("sigmoid")) return 1 / (1 + std::exp(-x));
  if (a.op.starts_with("tanh")) return std::tanh(x);
  if (a.Get<bool>("approximate")) return 0.5 * x * (1 + std::tanh(Inner(x)));
  return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
}

// Returns the derivative of the activation. `at` is x for gelu, and the result of the activation
// for all other activations.
double Slope(const OracleArgs& a, double at) {
  if (a.op.starts_with("sigmoid")) return at * (1 - at);
  if (a.op.starts_with("tanh")) return 1 - at * at;
  if (a.Get<bool>("approximate")) {
    const double t = std::tanh(Inner(at));
    const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * kTanhFactor * at * at);
    return 0.5 * (1 + t) + 0.5 * at * (1 - t * t) * slope;
  }
  const double density = std::exp(-0.5 * at * at) / std::sqrt(2 * std::numbers::pi);
  return 0.5 * std::erfc(-at / std::numbers::sqrt2) + at * density;
}

// Returns how many elements of row `r` the softmax uses. A causal softmax uses only the elements up
// to the diagonal.
size_t Kept(const OracleArgs& a, size_t r) {
  const Shape& x = a.shape(0);
  const auto n = static_cast<size_t>(x[x.rank() - 1]);
  if (!a.Get<bool>("causal")) return n;
  const auto height = static_cast<size_t>(x[x.rank() - 2]);
  return r % height + 1 + n - height;
}

struct Rows {
  size_t rows, n;
};
Rows RowsOf(const OracleArgs& a) {
  const int axis = static_cast<int>(a.Get<int64_t>("begin_norm_axis"));
  const Shape& x = a.shape(0);
  return {static_cast<size_t>(x.numel(0, axis)), static_cast<size_t>(x.numel(axis, x.rank()))};
}

// Returns for each element of X the index of the reduced element to which it contributes.
std::vector<size_t> Targets(const OracleArgs& a, Shape* out) {
  const Shape& x = a.shape(0);
  const auto dims = a.Get<std::vector<int64_t>>("dim");
  const auto reduced = [&](int d) {
    return dims.empty() || std::any_of(dims.begin(), dims.end(), [&](int64_t dim) {
             return (dim < 0 ? dim + x.rank() : dim) == d;
           });
  };
  std::vector<int64_t> shape;
  for (int d = 0; d < x.rank(); ++d) {
    if (!reduced(d)) shape.push_back(x[d]);
    if (reduced(d) && a.Get<bool>("keep_dim")) shape.push_back(1);
  }
  if (shape.empty()) shape = {1};
  *out = Shape(shape);
  std::vector<size_t> targets(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < targets.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = 0, step = 1;
    for (int d = x.rank() - 1; d >= 0; --d) {
      const int64_t index = rest % x[d];
      rest /= x[d];
      if (reduced(d)) continue;
      at += index * step;
      step *= x[d];
    }
    targets[i] = static_cast<size_t>(at);
  }
  return targets;
}

}  // namespace

Values OracleActivation(const OracleArgs& a) {
  Value out = a.in[0];
  for (double& x : out.v) x = Activated(a, x);
  return {out};
}

Values OracleActivationGrad(const OracleArgs& a) {
  Value gx = a.in[1];
  for (size_t i = 0; i < gx.v.size(); ++i) gx.v[i] *= Slope(a, a[0][i]);
  return {gx};
}

Values OracleSoftmax(const OracleArgs& a) {
  Value out = Zeros(a.shape(0));
  const auto n = static_cast<size_t>(a.shape(0)[a.shape(0).rank() - 1]);
  for (size_t r = 0; r * n < out.v.size(); ++r) {
    const double* x = a[0].data() + r * n;
    const size_t kept = Kept(a, r);
    const double largest = *std::max_element(x, x + kept);
    double total = 0;
    for (size_t i = 0; i < kept; ++i) total += std::exp(x[i] - largest);
    for (size_t i = 0; i < kept; ++i) out.v[r * n + i] = std::exp(x[i] - largest) / total;
  }
  return {out};
}

Values OracleSoftmaxGrad(const OracleArgs& a) {
  Value gx = Zeros(a.shape(0));
  const auto n = static_cast<size_t>(a.shape(0)[a.shape(0).rank() - 1]);
  for (size_t r = 0; r * n < gx.v.size(); ++r) {
    double dot = 0;
    for (size_t i = r * n; i < r * n + Kept(a, r); ++i) dot += a[0][i] * a[1][i];
    for (size_t i = r * n; i < r * n + Kept(a, r); ++i) gx.v[i] = a[0][i] * (a[1][i] - dot);
  }
  return {gx};
}

Values OracleLayerNorm(const OracleArgs& a) {
  const auto [rows, n] = RowsOf(a);
  const Shape per_row{static_cast<int64_t>(rows)};
  Value y = a.in[0], mean = Zeros(per_row), variance = Zeros(per_row);
  for (size_t r = 0; r < rows; ++r) {
    double* row = y.v.data() + r * n;
    for (size_t i = 0; i < n; ++i) mean.v[r] += row[i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) {
      variance.v[r] += (row[i] - mean.v[r]) * (row[i] - mean.v[r]) / static_cast<double>(n);
    }
    const double deviation = std::sqrt(variance.v[r] + Rounded(a, "epsilon"));
    for (size_t i = 0; i < n; ++i) {
      row[i] = (row[i] - mean.v[r]) / deviation * (a.Has(1) ? a[1][i] : 1);
      row[i] += a.Has(2) ? a[2][i] : 0;
    }
  }
  return {y, mean, variance};
}

Values OracleLayerNormGrad(const OracleArgs& a) {
  const auto [rows, n] = RowsOf(a);
  const Shape row_shape{static_cast<int64_t>(n)};
  Value gx = Zeros(a.shape(0)), gscale = Zeros(row_shape), gbias = Zeros(row_shape);
  for (size_t r = 0; r < rows; ++r) {
    const double deviation = std::sqrt(a[3][r] + Rounded(a, "epsilon"));
    std::vector<double> h(n), q(n);
    double q_mean = 0, qh_mean = 0;
    for (size_t i = 0; i < n; ++i) {
      const double g = a[4][r * n + i];
      h[i] = (a[0][r * n + i] - a[2][r]) / deviation;
      q[i] = g * (a.Has(1) ? a[1][i] : 1);
      q_mean += q[i] / static_cast<double>(n);
      qh_mean += q[i] * h[i] / static_cast<double>(n);
      gscale.v[i] += g * h[i];
      gbias.v[i] += g;
    }
    for (size_t i = 0; i < n; ++i) gx.v[r * n + i] = (q[i] - q_mean - h[i] * qh_mean) / deviation;
  }
  return {gx, gscale, gbias};
}

// The input Position holds seed, step, first sample and number of samples.
Values OracleDropout(const OracleArgs& a) {
  Value out = a.in[0];
  if (a.Get<bool>("is_test")) return {out};
  const auto draw = [](uint64_t key, double counter) {
    const auto words = Philox(key, static_cast<uint64_t>(counter));
    return (uint64_t{words[1]} << 32) | words[0];
  };
  const uint64_t name = StableHash("dropout:" + a.Get<std::string>("name"));
  const uint64_t key = draw(draw(name, a[1][0]), a[1][1]);
  const double p = a.Get<double>("dropout_prob");
  const auto first = static_cast<uint64_t>(a[1][2] * static_cast<double>(out.v.size()) / a[1][3]);
  for (size_t i = 0; i < out.v.size(); ++i) {
    const uint64_t at = first + i;
    const bool drop = Philox(key, at / 4)[at % 4] < p * 0x1p32;
    out.v[i] = drop ? 0 : out.v[i] / (1 - p);
  }
  return {out};
}

Values OracleReduce(const OracleArgs& a) {
  Shape shape;
  const auto targets = Targets(a, &shape);
  Value out = Zeros(shape);
  std::vector<double> count(out.v.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    double& to = out.v[targets[i]];
    const bool first = count[targets[i]]++ == 0;
    if (a.op == "reduce_max") {
      to = first ? a[0][i] : std::max(to, a[0][i]);
    } else {
      to += a[0][i];
    }
  }
  for (size_t i = 0; i < count.size() && a.op == "reduce_mean"; ++i) out.v[i] /= count[i];
  return {out};
}

Values OracleReduceGrad(const OracleArgs& a) {
  Shape shape;
  const auto targets = Targets(a, &shape);
  Value gx = Zeros(a.shape(0));
  const double share = static_cast<double>(shape.numel()) / static_cast<double>(gx.v.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    gx.v[i] = a[1][targets[i]];
    if (a.op == "reduce_mean_grad") gx.v[i] *= share;
    if (a.op == "reduce_max_grad" && a[0][i] != a[2][targets[i]]) gx.v[i] = 0;
  }
  return {gx};
}

}  // namespace tandem::optest
