#include <algorithm>
#include <cmath>

#include "common/base/rng.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Values = std::vector<Value>;

// The matrices of an attention as separate tensors, and the weights before and after dropout.
struct Matrices {
  size_t count, t, s, dim, width;
  Value q, k, v;                       // [count, rows, columns]
  std::vector<double> scores, factor;  // [count, t, s]; the factor of a masked score is not used
  bool causal;

  bool Kept(size_t i, size_t j) const { return !causal || j < i + 1 + s - t; }
};

// Returns part `part` of `parts` of the packed tensor x [batch, t, parts, heads, dim], or x
// [batch, t, heads, dim] for one part, as [batch, heads, t, dim]. `back`: the other direction.
void Repack(Value& packed, Value& rows, const Shape& dims, size_t part, bool back) {
  const bool several = dims.rank() == 5;
  const int at = several ? 3 : 2;
  const auto batch = static_cast<size_t>(dims[0]), t = static_cast<size_t>(dims[1]);
  const auto heads = static_cast<size_t>(dims[at]), dim = static_cast<size_t>(dims[at + 1]);
  const size_t parts = several ? 3 : 1;
  for (size_t b = 0; b < batch; ++b) {
    for (size_t i = 0; i < t; ++i) {
      for (size_t h = 0; h < heads; ++h) {
        for (size_t d = 0; d < dim; ++d) {
          double& one = packed.v[(((b * t + i) * parts + part) * heads + h) * dim + d];
          double& other = rows.v[((b * heads + h) * t + i) * dim + d];
          (back ? one : other) = back ? other : one;
        }
      }
    }
  }
}

Value Unpacked(const Value& packed, size_t part) {
  const Shape& dims = packed.desc.shape;
  const int at = dims.rank() == 5 ? 3 : 2;
  Value from = packed, rows = Zeros({dims[0], dims[at], dims[1], dims[at + 1]});
  Repack(from, rows, dims, part, false);
  return rows;
}

bool IsPacked(const OracleArgs& a) { return a.in[1].desc.shape.rank() == 0; }

// The factor of each weight: 0 or 1 / (1 - dropout_prob), as in OracleDropout.
std::vector<double> Factors(const OracleArgs& a, size_t n) {
  std::vector<double> factor(n, 1.0);
  const double p = a.Get<double>("dropout_prob");
  if (p == 0 || a.Get<bool>("is_test") || n == 0) return factor;
  const auto draw = [](uint64_t key, double counter) {
    const auto words = Philox(key, static_cast<uint64_t>(counter));
    return (uint64_t{words[1]} << 32) | words[0];
  };
  const uint64_t name = StableHash("dropout:" + a.Get<std::string>("name"));
  const uint64_t key = draw(draw(name, a[3][0]), a[3][1]);
  const auto first = static_cast<uint64_t>(a[3][2] * static_cast<double>(n) / a[3][3]);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t at = first + i;
    factor[i] = Philox(key, at / 4)[at % 4] < p * 0x1p32 ? 0 : 1 / (1 - p);
  }
  return factor;
}

Matrices MatricesOf(const OracleArgs& a) {
  Matrices m{};
  const bool packed = IsPacked(a);
  m.q = packed ? Unpacked(a.in[0], 0) : a.in[0];
  m.k = packed ? Unpacked(a.in[0], 1) : a.in[1];
  m.v = packed ? Unpacked(a.in[0], 2) : a.in[2];
  const Shape &q = m.q.desc.shape, &v = m.v.desc.shape;
  const int rank = q.rank();
  m.count = static_cast<size_t>(q.numel(0, rank - 2));
  m.t = static_cast<size_t>(q[rank - 2]);
  m.dim = static_cast<size_t>(q[rank - 1]);
  m.s = static_cast<size_t>(v[rank - 2]);
  m.width = static_cast<size_t>(v[rank - 1]);
  m.causal = a.Get<bool>("causal");
  m.factor = Factors(a, m.count * m.t * m.s);
  m.scores.assign(m.count * m.t * m.s, 0.0);
  for (size_t r = 0; r < m.count * m.t; ++r) {
    for (size_t j = 0; j < m.s; ++j) {
      const size_t k = (r / m.t * m.s + j) * m.dim;
      double& score = m.scores[r * m.s + j];
      for (size_t d = 0; d < m.dim; ++d) score += m.q.v[r * m.dim + d] * m.k.v[k + d];
      score *= Rounded(a, "alpha");
    }
  }
  return m;
}

}  // namespace

Values OracleAttention(const OracleArgs& a) {
  const Matrices m = MatricesOf(a);
  Shape shape = m.q.desc.shape;
  std::vector<int64_t> rows;
  for (int d = 0; d + 1 < shape.rank(); ++d) rows.push_back(shape[d]);
  shape[shape.rank() - 1] = static_cast<int64_t>(m.width);
  Value out = Zeros(shape), log_sum = Zeros(Shape(rows));
  for (size_t r = 0; r < m.count * m.t; ++r) {
    const double* scores = m.scores.data() + r * m.s;
    double largest = -INFINITY, sum = 0;
    for (size_t j = 0; j < m.s; ++j) {
      if (m.Kept(r % m.t, j)) largest = std::max(largest, scores[j]);
    }
    for (size_t j = 0; j < m.s; ++j) {
      if (m.Kept(r % m.t, j)) sum += std::exp(scores[j] - largest);
    }
    log_sum.v[r] = largest + std::log(sum);
    for (size_t j = 0; j < m.s; ++j) {
      if (!m.Kept(r % m.t, j)) continue;
      const double weight = std::exp(scores[j] - log_sum.v[r]) * m.factor[r * m.s + j];
      const double* v = m.v.v.data() + (r / m.t * m.s + j) * m.width;
      for (size_t d = 0; d < m.width; ++d) out.v[r * m.width + d] += weight * v[d];
    }
  }
  if (!IsPacked(a)) return {out, log_sum};
  const Shape& q = a.shape(0);
  Value packed = Zeros({q[0], q[1], q[3], q[4]});
  Repack(packed, out, packed.desc.shape, 0, true);
  return {packed, log_sum};
}

// The weights follow from the input LogSum, whether or not it is that of the scores.
Values OracleAttentionGrad(const OracleArgs& a) {
  const Matrices m = MatricesOf(a);
  const Value out = IsPacked(a) ? Unpacked(a.in[4], 0) : a.in[4];
  const Value g = IsPacked(a) ? Unpacked(a.in[6], 0) : a.in[6];
  Value gq = Zeros(m.q.desc.shape), gk = Zeros(m.k.desc.shape), gv = Zeros(m.v.desc.shape);
  for (size_t r = 0; r < m.count * m.t; ++r) {
    double mean = 0;
    for (size_t d = 0; d < m.width; ++d) mean += out.v[r * m.width + d] * g.v[r * m.width + d];
    for (size_t j = 0; j < m.s; ++j) {
      if (!m.Kept(r % m.t, j)) continue;
      const size_t row = r / m.t * m.s + j;
      const double factor = m.factor[r * m.s + j];
      const double weight = std::exp(m.scores[r * m.s + j] - a[5][r]);
      double gw = 0;
      for (size_t d = 0; d < m.width; ++d) {
        gw += g.v[r * m.width + d] * m.v.v[row * m.width + d] * factor;
        gv.v[row * m.width + d] += weight * factor * g.v[r * m.width + d];
      }
      const double gx = Rounded(a, "alpha") * weight * (gw - mean);
      for (size_t d = 0; d < m.dim; ++d) {
        gq.v[r * m.dim + d] += gx * m.k.v[row * m.dim + d];
        gk.v[row * m.dim + d] += gx * m.q.v[r * m.dim + d];
      }
    }
  }
  if (!IsPacked(a)) return {gq, gk, gv};
  Value packed = Zeros(a.shape(0));
  size_t part = 0;
  for (Value* value : {&gq, &gk, &gv}) Repack(packed, *value, a.shape(0), part++, true);
  return {packed, packed, packed};
}

}  // namespace tandem::optest
