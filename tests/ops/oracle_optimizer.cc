// Reference results of optimizers, as in their papers, in double precision.
#include <algorithm>
#include <cmath>

#include "common/base/check.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Values = std::vector<Value>;

Values Sgd(const OracleArgs& a) {
  Value p = a.in[0];
  for (size_t i = 0; i < p.v.size(); ++i) p.v[i] -= a[2][0] * a[1][i];
  return {p};
}

Values Momentum(const OracleArgs& a) {
  const double mu = Rounded(a, "mu"), lr = a[3][0];
  const bool nesterov = a.Get<bool>("use_nesterov");
  Value p = a.in[0], v = a.in[2];
  for (size_t i = 0; i < p.v.size(); ++i) {
    v.v[i] = mu * v.v[i] + a[1][i];
    p.v[i] -= lr * (nesterov ? a[1][i] + mu * v.v[i] : v.v[i]);
  }
  return {p, v};
}

// Algorithm 1 of Kingma and Ba (Adam) with corrected moments, and line 12 of the algorithm of
// AdamW.
Values Adam(const OracleArgs& a) {
  const double b1 = Rounded(a, "beta1"), b2 = Rounded(a, "beta2"), lr = a[6][0];
  const double epsilon = Rounded(a, "epsilon"), decay = Rounded(a, "weight_decay");
  Value p = a.in[0], m = a.in[2], v = a.in[3], pow1 = a.in[4], pow2 = a.in[5];
  for (size_t i = 0; i < p.v.size(); ++i) {
    const double g = a[1][i];
    m.v[i] = b1 * m.v[i] + (1 - b1) * g;
    v.v[i] = b2 * v.v[i] + (1 - b2) * g * g;
    const double m_hat = m.v[i] / (1 - pow1.v[0]), v_hat = v.v[i] / (1 - pow2.v[0]);
    p.v[i] -= lr * (m_hat / (std::sqrt(v_hat) + epsilon) + decay * p.v[i]);
  }
  pow1.v[0] *= b1;
  pow2.v[0] *= b2;
  return {p, m, v, pow1, pow2};
}

Values Adagrad(const OracleArgs& a) {
  Value p = a.in[0], s = a.in[2];
  for (size_t i = 0; i < p.v.size(); ++i) {
    s.v[i] += a[1][i] * a[1][i];
    p.v[i] -= a[3][0] * a[1][i] / (std::sqrt(s.v[i]) + Rounded(a, "epsilon"));
  }
  return {p, s};
}

Values DecayedAdagrad(const OracleArgs& a) {
  const double decay = Rounded(a, "decay");
  Value p = a.in[0], s = a.in[2];
  for (size_t i = 0; i < p.v.size(); ++i) {
    s.v[i] = decay * s.v[i] + (1 - decay) * a[1][i] * a[1][i];
    p.v[i] -= a[3][0] * a[1][i] / (std::sqrt(s.v[i]) + Rounded(a, "epsilon"));
  }
  return {p, s};
}

Values Adamax(const OracleArgs& a) {
  const double b1 = Rounded(a, "beta1"), b2 = Rounded(a, "beta2");
  Value p = a.in[0], m = a.in[2], u = a.in[3], power = a.in[4];
  for (size_t i = 0; i < p.v.size(); ++i) {
    m.v[i] = b1 * m.v[i] + (1 - b1) * a[1][i];
    u.v[i] = std::max(std::abs(a[1][i]), b2 * u.v[i] + Rounded(a, "epsilon"));
    p.v[i] -= a[5][0] / (1 - power.v[0]) * m.v[i] / u.v[i];
  }
  power.v[0] *= b1;
  return {p, m, u, power};
}

Values Rmsprop(const OracleArgs& a) {
  const double decay = Rounded(a, "decay"), mu = Rounded(a, "mu"), lr = a[5][0];
  Value p = a.in[0], s = a.in[2], v = a.in[3];
  const bool centered = a.Get<bool>("centered");
  Value mean = centered ? a.in[4] : Value{};
  for (size_t i = 0; i < p.v.size(); ++i) {
    const double g = a[1][i];
    s.v[i] = decay * s.v[i] + (1 - decay) * g * g;
    double variance = s.v[i];
    if (centered) {
      mean.v[i] = decay * mean.v[i] + (1 - decay) * g;
      variance = std::max(variance - mean.v[i] * mean.v[i], 0.0);
    }
    v.v[i] = mu * v.v[i] + lr * g / std::sqrt(variance + Rounded(a, "epsilon"));
    p.v[i] -= v.v[i];
  }
  return {p, s, v, mean};
}

// Algorithm 1 of McMahan et al. (FTRL-Proximal), for each coordinate.
Values Ftrl(const OracleArgs& a) {
  const double l1 = Rounded(a, "l1"), l2 = 2 * Rounded(a, "l2"), alpha = a[4][0];
  Value w = a.in[0], n = a.in[2], z = a.in[3];
  for (size_t i = 0; i < w.v.size(); ++i) {
    const double g = a[1][i];
    const double sigma = (std::sqrt(n.v[i] + g * g) - std::sqrt(n.v[i])) / alpha;
    z.v[i] += g - sigma * w.v[i];
    n.v[i] += g * g;
    const double sign = z.v[i] < 0 ? -1 : 1;
    const bool zero = std::abs(z.v[i]) <= l1;
    w.v[i] = zero ? 0 : -(z.v[i] - sign * l1) / (std::sqrt(n.v[i]) / alpha + l2);
  }
  return {w, n, z};
}

double NormOf(const std::vector<double>& v) {
  double total = 0;
  for (const double x : v) total += x * x;
  return std::sqrt(total);
}

Values Lars(const OracleArgs& a) {
  const double decay = Rounded(a, "weight_decay"), mu = Rounded(a, "mu");
  Value p = a.in[0], v = a.in[2];
  const double pn = NormOf(p.v), gn = NormOf(a[1]);
  double lr = a[3][0];
  if (pn > 0 && gn > 0 && decay > 0) {
    lr *= Rounded(a, "lars_coeff") * pn / (gn + decay * pn + Rounded(a, "epsilon"));
  }
  for (size_t i = 0; i < p.v.size(); ++i) {
    v.v[i] = mu * v.v[i] + lr * (a[1][i] + decay * p.v[i]);
    p.v[i] -= v.v[i];
  }
  return {p, v};
}

Values Lamb(const OracleArgs& a) {
  const double b1 = Rounded(a, "beta1"), b2 = Rounded(a, "beta2");
  Value p = a.in[0], m = a.in[2], v = a.in[3], pow1 = a.in[4], pow2 = a.in[5];
  std::vector<double> r(p.v.size());
  for (size_t i = 0; i < p.v.size(); ++i) {
    const double g = a[1][i];
    m.v[i] = b1 * m.v[i] + (1 - b1) * g;
    v.v[i] = b2 * v.v[i] + (1 - b2) * g * g;
    const double root = std::sqrt(v.v[i] / (1 - pow2.v[0])) + Rounded(a, "epsilon");
    r[i] = m.v[i] / (1 - pow1.v[0]) / root + Rounded(a, "weight_decay") * p.v[i];
  }
  const double pn = NormOf(p.v), rn = NormOf(r), trust = pn > 0 && rn > 0 ? pn / rn : 1;
  for (size_t i = 0; i < p.v.size(); ++i) p.v[i] -= a[6][0] * trust * r[i];
  pow1.v[0] *= b1;
  pow2.v[0] *= b2;
  return {p, m, v, pow1, pow2};
}

Values Regularize(const OracleArgs& a) {
  Value g = a.in[1];
  for (size_t i = 0; i < g.v.size(); ++i) {
    const double p = a[0][i], sign = p > 0 ? 1 : p < 0 ? -1 : 0;
    g.v[i] += Rounded(a, "l2") * p + Rounded(a, "l1") * sign;
  }
  return {g};
}

struct OptimizerOracle {
  const char* op;
  Values (*run)(const OracleArgs&);
  size_t rows;  // position of the input Rows, which has the row numbers of a sparse gradient
};
constexpr OptimizerOracle kOptimizers[] = {
    {"adagrad", Adagrad, 4},
    {"adam", Adam, 7},
    {"adamax", Adamax, 6},
    {"decayed_adagrad", DecayedAdagrad, 4},
    {"ftrl", Ftrl, 5},
    {"lamb", Lamb, 7},
    {"lars_momentum", Lars, 4},
    {"momentum", Momentum, 4},
    {"regularize", Regularize, 2},
    {"rmsprop", Rmsprop, 6},
    {"sgd", Sgd, 3},
};

// Converts a sparse gradient into a dense gradient.
Value Dense(const OracleArgs& a, size_t rows) {
  Value g = Zeros(a.shape(0));
  const auto dim = static_cast<size_t>(a.shape(0)[1]);
  for (size_t i = 0; i < a[1].size(); ++i) {
    const double row = a[rows][i / dim];
    if (row >= 0) g.v[static_cast<size_t>(row) * dim + i % dim] = a[1][i];
  }
  return g;
}

// Restores the previous values of all rows that are not in the sparse gradient.
void KeepOtherRows(const OracleArgs& a, size_t rows, Values& out) {
  const auto dim = static_cast<size_t>(a.shape(0)[1]);
  std::vector<bool> touched(static_cast<size_t>(a.shape(0)[0]));
  for (const double row : a[rows]) {
    if (row >= 0) touched[static_cast<size_t>(row)] = true;
  }
  for (size_t o = 0; o < out.size(); ++o) {
    const Value& before = a.in[o == 0 ? 0 : o + 1];
    if (out[o].v.size() != a[0].size()) continue;
    for (size_t i = 0; i < out[o].v.size(); ++i) {
      if (!touched[i / dim]) out[o].v[i] = before.v[i];
    }
  }
}

// Returns the sparse result for rows of the sparse gradient, taken from the dense result `dense`.
Values PickRows(const OracleArgs& a, const Values& dense) {
  Value out = a.in[1];
  const auto dim = static_cast<size_t>(a.shape(0)[1]);
  for (size_t i = 0; i < out.v.size(); ++i) {
    const double row = a[2][i / dim];
    out.v[i] = row < 0 ? 0 : dense[0].v[static_cast<size_t>(row) * dim + i % dim];
  }
  return {out};
}

}  // namespace

Values OracleOptimizer(const OracleArgs& a) {
  const auto* row = std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                                 [&a](const OptimizerOracle& r) { return a.op == r.op; });
  CHECK(row != std::end(kOptimizers)) << a.op;
  if (!a.Has(row->rows)) return row->run(a);
  Values in(a.in.begin(), a.in.end());
  in[1] = Dense(a, row->rows);
  Values out = row->run(OracleArgs{a.attrs, a.op, in});
  if (a.op == "regularize") return PickRows(a, out);
  const auto lazy = a.attrs.find("lazy_mode");
  if (lazy != a.attrs.end() && std::get<bool>(lazy->second)) KeepOtherRows(a, row->rows, out);
  return out;
}

Values OracleClip(const OracleArgs& a) {
  const double min = Rounded(a, "min"), max = Rounded(a, "max");
  Value out = a.in[a.op == "clip" ? 0 : 1];
  for (size_t i = 0; i < out.v.size(); ++i) {
    const double x = a[0][i];
    if (a.op == "clip") out.v[i] = x < min ? min : x > max ? max : x;
    if (a.op == "clip_grad" && (x < min || x > max)) out.v[i] = 0;
  }
  return {out};
}

Values OracleClipByNorm(const OracleArgs& a) {
  double total = 0;
  for (const Value& x : a.in) total += NormOf(x.v) * NormOf(x.v);
  const double norm = std::sqrt(total), limit = Rounded(a, "max_norm");
  Values out(a.in.begin(), a.in.end());
  for (Value& x : out) {
    for (double& v : x.v) v *= norm > limit ? limit / norm : 1;
  }
  return out;
}

}  // namespace tandem::optest
