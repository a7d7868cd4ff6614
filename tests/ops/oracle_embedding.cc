#include "tests/ops/oracle.h"

namespace tandem::optest {

std::vector<Value> OracleLookupTable(const OracleArgs& a) {
  std::vector<int64_t> dims(a.shape(0).dims().begin(), a.shape(0).dims().end());
  if (a.Get<bool>("squeeze_last") && dims.size() > 1 && dims.back() == 1) dims.pop_back();
  const auto dim = static_cast<size_t>(a.shape(1)[1]);
  dims.push_back(a.shape(1)[1]);
  Value out = Zeros(Shape(dims));
  for (size_t i = 0; i < out.v.size(); ++i) {
    const double id = a[0][i / dim];
    if (id == static_cast<double>(a.Get<int64_t>("padding_idx"))) continue;
    out.v[i] = a[1][static_cast<size_t>(id) * dim + i % dim];
  }
  return {out};
}

std::vector<Value> OracleLookupTableGrad(const OracleArgs& a) {
  Value gw = Zeros(a.shape(1));
  const auto dim = static_cast<size_t>(a.shape(1)[1]);
  for (size_t i = 0; i < a[2].size(); ++i) {
    const double id = a[0][i / dim];
    if (id == static_cast<double>(a.Get<int64_t>("padding_idx"))) continue;
    gw.v[static_cast<size_t>(id) * dim + i % dim] += a[2][i];
  }
  return {gw};
}

}  // namespace tandem::optest
