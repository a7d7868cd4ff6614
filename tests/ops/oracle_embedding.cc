#include <algorithm>
#include <set>

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

namespace {

// Converts a dense gradient into a sparse gradient with the rows `used`. The sparse gradient has
// space for `n` rows.
std::vector<Value> RowsOf(const Value& whole, const std::set<int64_t>& used, int64_t n) {
  const auto dim = static_cast<size_t>(whole.desc.shape[1]);
  Value values = Zeros({n, whole.desc.shape[1]}), rows = Zeros({n}, DType::kI64);
  std::fill(rows.v.begin(), rows.v.end(), -1.0);
  size_t at = 0;
  for (const int64_t row : used) {
    rows.v[at] = static_cast<double>(row);
    for (size_t c = 0; c < dim; ++c) {
      values.v[at * dim + c] = whole.v[static_cast<size_t>(row) * dim + c];
    }
    ++at;
  }
  return {values, rows};
}

}  // namespace

std::vector<Value> OracleLookupTableSparseGrad(const OracleArgs& a) {
  std::set<int64_t> used;
  for (const double id : a[0]) {
    if (id != static_cast<double>(a.Get<int64_t>("padding_idx"))) {
      used.insert(static_cast<int64_t>(id));
    }
  }
  const int64_t n = std::min(a.shape(0).numel(), a.shape(1)[0]);
  return RowsOf(OracleLookupTableGrad(a)[0], used, n);
}

std::vector<Value> OracleSparseRowsToDense(const OracleArgs& a) {
  const int64_t dim = a.shape(0)[1];
  Value out = Zeros({a.Get<int64_t>("height"), dim});
  for (size_t i = 0; i < a[0].size(); ++i) {
    const double row = a[1][i / static_cast<size_t>(dim)];
    if (row < 0) continue;
    const auto at = static_cast<int64_t>(row) * dim + static_cast<int64_t>(i) % dim;
    out.v[static_cast<size_t>(at)] = a[0][i];
  }
  return {out};
}

std::vector<Value> OracleSumSparseRows(const OracleArgs& a) {
  const int64_t height = a.Get<int64_t>("height");
  Value total = Zeros({height, a.shape(0)[1]});
  std::set<int64_t> used;
  int64_t n = 0;
  for (size_t pair = 0; pair < a.in.size(); pair += 2) {
    const OracleArgs one{a.attrs, a.op, a.in.subspan(pair, 2)};
    const Value dense = OracleSparseRowsToDense(one)[0];
    for (size_t i = 0; i < dense.v.size(); ++i) total.v[i] += dense.v[i];
    for (const double row : one[1]) {
      if (row >= 0) used.insert(static_cast<int64_t>(row));
    }
    n += one.shape(1)[0];
  }
  return RowsOf(total, used, std::min(n, height));
}

}  // namespace tandem::optest
