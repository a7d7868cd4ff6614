// Reference results of operators of training regimes: in which steps ranks average parameters, and
// which gradients ranks send.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/ops/oracle.h"

namespace tandem::optest {

std::vector<Value> OracleEveryNth(const OracleArgs& a) {
  Value count = a.in[0], due = a.in[0];
  const double n = a.Has(1) ? a[1][0] : static_cast<double>(a.Get<int64_t>("n"));
  const bool full = count.v[0] + 1 >= n;
  due.v[0] = full || count.v[0] < 0 ? 1 : 0;
  count.v[0] = full ? 0 : count.v[0] + 1;
  return {count, due};
}

// Algorithm 1 of Nguyen et al. (FedBuff), with the outer step of DiLoCo.
std::vector<Value> OracleBufferedMomentum(const OracleArgs& a) {
  Value p = a.in[0], velocity = a.in[2], sum = a.in[3], weight = a.in[4], count = a.in[5];
  const double added = a[6][0];
  weight.v[0] += added;
  count.v[0] += 1;
  for (size_t i = 0; i < p.v.size(); ++i) sum.v[i] += added * a[1][i];
  if (count.v[0] < static_cast<double>(a.Get<int64_t>("gradients"))) {
    return {p, velocity, sum, weight, count};
  }
  const double mu = Rounded(a, "mu"), rate = Rounded(a, "rate");
  for (size_t i = 0; i < p.v.size(); ++i) {
    const double g = weight.v[0] > 0 ? sum.v[i] / weight.v[0] : 0;
    velocity.v[i] = mu * velocity.v[i] + g;
    p.v[i] -= rate * (a.Get<bool>("use_nesterov") ? g + mu * velocity.v[i] : velocity.v[i]);
    sum.v[i] = 0;
  }
  weight.v[0] = count.v[0] = 0;
  return {p, velocity, sum, weight, count};
}

// Equation 13 of Wang and Joshi (AdaComm) with a variable learning rate. The number of steps is
// rounded up.
std::vector<Value> OracleAdaptiveSteps(const OracleArgs& a) {
  const double loss = a[0][0], rate = a[1][0];
  Value base_loss = a.in[2], base_rate = a.in[3], steps = a.in[4];
  if ((base_loss.v[0] == 0 || base_rate.v[0] == 0) && loss > 0 && rate > 0) {
    base_loss.v[0] = loss;
    base_rate.v[0] = rate;
  }
  const double next = std::ceil(std::sqrt(base_rate.v[0] * loss / (rate * base_loss.v[0]) *
                                          static_cast<double>(a.Get<int64_t>("init_k_steps"))));
  if (next == next) {
    steps.v[0] = std::min(std::max(next, 1.0), static_cast<double>(a.Get<int64_t>("k_steps_max")));
  }
  return {base_loss, base_rate, steps};
}

// Selects the elements by sorting all of them. Computes in f32, because the selection depends on
// every bit.
std::vector<Value> OracleDgcCompress(const OracleArgs& a) {
  Value velocity = a.in[1], residual = a.in[2];
  const auto mu = static_cast<float>(a.Get<double>("mu"));
  const size_t n = velocity.v.size();
  for (size_t i = 0; i < n; ++i) {
    const auto g = static_cast<float>(a[0][i]);
    const float v = mu * static_cast<float>(velocity.v[i]) + g;
    velocity.v[i] = v;
    residual.v[i] =
        static_cast<float>(residual.v[i]) + (a.Get<bool>("use_nesterov") ? g + mu * v : v);
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    return std::fabs(residual.v[i]) > std::fabs(residual.v[j]);
  });
  const double share = 1.0 - a[3][0];
  const size_t k = std::min(
      n, static_cast<size_t>(std::max(1.0, std::floor(static_cast<double>(n) * share + 0.5))));
  order.resize(k);
  std::sort(order.begin(), order.end());
  Value selected = Zeros({2 * a.Get<int64_t>("capacity") + 1}, DType::kI32);
  selected.v[0] = static_cast<double>(k);
  for (size_t j = 0; j < k; ++j) {
    const size_t i = order[j];
    selected.v[1 + j] = static_cast<double>(i);
    selected.v[1 + k + j] = std::bit_cast<int32_t>(static_cast<float>(residual.v[i]));
    residual.v[i] = velocity.v[i] = 0;
  }
  return {velocity, residual, selected};
}

std::vector<Value> OracleDgcUpdate(const OracleArgs& a) {
  Value param = a.in[0];
  const auto width = static_cast<size_t>(a.shape(1)[1]);
  for (size_t row = 0; row * width < a[1].size(); ++row) {
    const double* words = a[1].data() + row * width;
    const auto k = static_cast<size_t>(words[0]);
    for (size_t j = 0; j < k; ++j) {
      const auto bits = static_cast<int32_t>(words[1 + k + j]);
      param.v[static_cast<size_t>(words[1 + j])] -= a[2][0] * std::bit_cast<float>(bits);
    }
  }
  return {param};
}

}  // namespace tandem::optest
