#include <algorithm>
#include <cmath>

#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

// Returns the elements of sequence b in column d.
std::vector<double> Column(const OracleArgs& a, int64_t b, int64_t d) {
  const Shape& x = a.shape(0);
  const int64_t length = a.Has(1) ? static_cast<int64_t>(a[1][static_cast<size_t>(b)]) : x[1];
  std::vector<double> column;
  for (int64_t t = 0; t < length; ++t) {
    column.push_back(a[0][static_cast<size_t>((b * x[1] + t) * x[2] + d)]);
  }
  return column;
}

// Returns the derivative of the pooled value with respect to step t.
double Slope(const std::string& type, const std::vector<double>& column, size_t t) {
  const auto n = static_cast<double>(column.size());
  if (type == "average") return 1 / n;
  if (type == "sqrt") return 1 / std::sqrt(n);
  if (type == "first") return t == 0 ? 1 : 0;
  if (type == "last") return t + 1 == column.size() ? 1 : 0;
  const auto largest = std::max_element(column.begin(), column.end()) - column.begin();
  if (type == "max") return t == static_cast<size_t>(largest) ? 1 : 0;
  return 1;
}

}  // namespace

std::vector<Value> OracleSequencePool(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  Value out = Zeros({x[0], x[2]});
  for (size_t i = 0; i < out.v.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto column = Column(a, at / x[2], at % x[2]);
    for (size_t t = 0; t < column.size(); ++t) {
      out.v[i] += Slope(a.Get<std::string>("pooltype"), column, t) * column[t];
    }
  }
  return {out};
}

std::vector<Value> OracleSequencePoolGrad(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  Value gx = Zeros(x);
  for (int64_t b = 0; b < x[0]; ++b) {
    for (int64_t d = 0; d < x[2]; ++d) {
      const auto column = Column(a, b, d);
      const double g = a[3][static_cast<size_t>(b * x[2] + d)];
      for (size_t t = 0; t < column.size(); ++t) {
        const auto at = (b * x[1] + static_cast<int64_t>(t)) * x[2] + d;
        gx.v[static_cast<size_t>(at)] = g * Slope(a.Get<std::string>("pooltype"), column, t);
      }
    }
  }
  return {gx};
}

std::vector<Value> OracleSigmoidXent(const OracleArgs& a) {
  Value sigmoid = Zeros(a.shape(0)), loss = Zeros(a.shape(0));
  for (size_t i = 0; i < loss.v.size(); ++i) {
    sigmoid.v[i] = 1 / (1 + std::exp(-a[0][i]));
    // Computes -log of the probability of the label: sigmoid(x) for label 1 and sigmoid(-x) for
    // label 0.
    loss.v[i] = std::log1p(std::exp(a[1][i] == 1 ? -a[0][i] : a[0][i]));
  }
  return {sigmoid, loss};
}

std::vector<Value> OracleSigmoidXentGrad(const OracleArgs& a) {
  Value gx = Zeros(a.shape(0));
  for (size_t i = 0; i < gx.v.size(); ++i) gx.v[i] = (a[0][i] - a[1][i]) * a[2][i];
  return {gx};
}

std::vector<Value> OracleRegressionLoss(const OracleArgs& a) {
  Value loss = Zeros(a.shape(0));
  for (size_t i = 0; i < loss.v.size(); ++i) {
    const double d = std::abs(a[0][i] - a[1][i]);
    if (a.op == "square_error_cost") {
      loss.v[i] = d * d;
    } else if (a.op == "l1_loss") {
      loss.v[i] = d;
    } else {
      const double delta = a.Get<double>("delta");
      loss.v[i] = d <= delta ? d * d / 2 : delta * (d - delta / 2);
    }
  }
  return {loss};
}

std::vector<Value> OracleRegressionLossGrad(const OracleArgs& a) {
  Value gx = Zeros(a.shape(0));
  for (size_t i = 0; i < gx.v.size(); ++i) {
    const double d = a[0][i] - a[1][i];
    double slope = 2 * d;
    if (a.op == "l1_loss_grad") slope = d > 0 ? 1 : d < 0 ? -1 : 0;
    if (a.op == "huber_loss_grad") {
      const double delta = a.Get<double>("delta");
      slope = std::clamp(d, -delta, delta);
    }
    gx.v[i] = slope * a[2][i];
  }
  return {gx};
}

// Out is the fraction of (positive, negative) pairs in which the positive sample has the larger
// score. A pair in the same bucket counts as 0.5.
std::vector<Value> OracleAuc(const OracleArgs& a) {
  Value pos = a.in[2], neg = a.in[3];
  const auto columns = static_cast<size_t>(a.shape(0)[1]);
  const auto top = static_cast<double>(pos.v.size() - 1);
  for (size_t r = 0; r < a[1].size(); ++r) {
    const auto p = static_cast<float>(a[0][r * columns + columns - 1]);
    const auto bucket = static_cast<size_t>(p * static_cast<float>(top));
    (a[1][r] == 1 ? pos : neg).v[bucket] += 1;
  }
  double right = 0, pairs = 0;
  for (size_t i = 0; i < pos.v.size(); ++i) {
    for (size_t j = 0; j < neg.v.size(); ++j) {
      const double n = pos.v[i] * neg.v[j];
      right += i > j ? n : i == j ? n / 2 : 0;
      pairs += n;
    }
  }
  return {{{DType::kF32, {1}}, {pairs == 0 ? 0.5 : right / pairs}}, pos, neg};
}

}  // namespace tandem::optest
