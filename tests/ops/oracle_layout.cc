#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "tests/ops/oracle.h"

namespace tandem::optest {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<Value>;

// Calls fn(index per dimension, flat index) for every element of `shape`.
template <typename Fn>
void ForEachIndex(const Shape& shape, const Fn& fn) {
  Shape index = shape;
  for (int64_t flat = 0; flat < shape.numel(); ++flat) {
    int64_t rest = flat;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    fn(index, static_cast<size_t>(flat));
  }
}

size_t Flat(const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (int d = 0; d < shape.rank(); ++d) at = at * shape[d] + index[d];
  return static_cast<size_t>(at);
}

int Axis(const OracleArgs& a, const Shape& shape) {
  const int64_t axis = a.Get<int64_t>("axis");
  return static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
}

// Copies between `part` and the window of `whole` that begins at `begin`. `into`: from `part` to
// the window; else from the window to `part`.
void CopyWindow(Value& whole, Value& part, const Shape& begin, bool into) {
  ForEachIndex(part.desc.shape, [&](Shape index, size_t flat) {
    for (int d = 0; d < index.rank(); ++d) index[d] += begin[d];
    double& other = whole.v[Flat(whole.desc.shape, index)];
    (into ? other : part.v[flat]) = into ? part.v[flat] : other;
  });
}

Shape At(const Shape& like, int axis, int64_t begin) {
  Shape at = like;
  for (int d = 0; d < at.rank(); ++d) at[d] = d == axis ? begin : 0;
  return at;
}

Ints Sections(const OracleArgs& a, int64_t n) {
  const auto sections = a.Get<Ints>("sections");
  const auto num = a.Get<int64_t>("num");
  return sections.empty() ? Ints(static_cast<size_t>(num), n / num) : sections;
}

// Returns the first index and the shape of the window that slice reads.
std::pair<Shape, Shape> Window(const OracleArgs& a) {
  const Shape& x = a.shape(0);
  Shape begin = At(x, -1, 0), shape = x;
  const auto axes = a.Get<Ints>("axes"), starts = a.Get<Ints>("starts"), ends = a.Get<Ints>("ends");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int d = static_cast<int>(axes[i] < 0 ? axes[i] + x.rank() : axes[i]);
    begin[d] = starts[i] < 0 ? starts[i] + x[d] : starts[i];
    shape[d] = std::min(ends[i] < 0 ? ends[i] + x[d] : ends[i], x[d]) - begin[d];
  }
  return {begin, shape};
}

double AsType(DType dtype, double x) {
  const auto limited = [x](double low, double high) {
    return std::isnan(x) ? 0 : std::trunc(std::clamp(x, low, high));
  };
  switch (dtype) {
    case DType::kF32:
      return static_cast<float>(x);
    case DType::kF16:
      return F16ToF32(F32ToF16(static_cast<float>(x)));
    case DType::kBF16:
      return BF16ToF32(F32ToBF16(static_cast<float>(x)));
    case DType::kI32:
      return limited(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    case DType::kI64:
      return limited(-0x1p63, 0x1p63);  // as a double, the largest i64 is rounded up to 2^63
    case DType::kU8:
      return limited(0, 255);
  }
  return 0;
}

}  // namespace

Values OracleTranspose(const OracleArgs& a) {
  const auto axis = a.Get<Ints>("axis");
  Shape shape = a.shape(0);
  for (size_t d = 0; d < axis.size(); ++d) {
    shape[static_cast<int>(d)] = a.shape(0)[static_cast<int>(axis[d])];
  }
  Value out = Zeros(shape, a.in[0].desc.dtype);
  ForEachIndex(shape, [&](const Shape& index, size_t flat) {
    Shape source = index;
    for (size_t d = 0; d < axis.size(); ++d) {
      source[static_cast<int>(axis[d])] = index[static_cast<int>(d)];
    }
    out.v[flat] = a[0][Flat(a.shape(0), source)];
  });
  return {out};
}

Values OracleConcat(const OracleArgs& a) {
  const int axis = Axis(a, a.shape(0));
  Shape shape = a.shape(0);
  shape[axis] = 0;
  for (const Value& x : a.in) shape[axis] += x.desc.shape[axis];
  Value out = Zeros(shape, a.in[0].desc.dtype);
  int64_t begin = 0;
  for (Value x : a.in) {
    CopyWindow(out, x, At(shape, axis, begin), true);
    begin += x.desc.shape[axis];
  }
  return {out};
}

Values OracleConcatGrad(const OracleArgs& a) {
  const int axis = Axis(a, a.shape(0));
  const auto index = static_cast<size_t>(a.Get<int64_t>("index"));
  int64_t begin = 0;
  for (size_t i = 0; i < index; ++i) begin += a.shape(1 + i)[axis];
  Value whole = a.in[0], gx = a.in[1 + index];
  CopyWindow(whole, gx, At(a.shape(0), axis, begin), false);
  return {gx};
}

Values OracleSplit(const OracleArgs& a) {
  const int axis = Axis(a, a.shape(0));
  Value whole = a.in[0];
  Values parts;
  int64_t begin = 0;
  for (const int64_t n : Sections(a, a.shape(0)[axis])) {
    Shape shape = a.shape(0);
    shape[axis] = n;
    parts.push_back(Zeros(shape));
    CopyWindow(whole, parts.back(), At(shape, axis, begin), false);
    begin += n;
  }
  return parts;
}

Values OracleSplitGrad(const OracleArgs& a) {
  const int axis = Axis(a, a.shape(0));
  const Ints sections = Sections(a, a.shape(0)[axis]), given = a.Get<Ints>("given");
  Value gx = Zeros(a.shape(0));
  for (size_t i = 0; i < given.size(); ++i) {
    int64_t begin = 0;
    for (int64_t k = 0; k < given[i]; ++k) begin += sections[static_cast<size_t>(k)];
    Value part = a.in[1 + i];
    CopyWindow(gx, part, At(a.shape(0), axis, begin), true);
  }
  return {gx};
}

Values OracleSlice(const OracleArgs& a) {
  const auto [begin, shape] = Window(a);
  Value whole = a.in[0], part = Zeros(shape);
  CopyWindow(whole, part, begin, false);
  return {part};
}

Values OracleSliceGrad(const OracleArgs& a) {
  Value gx = Zeros(a.shape(0)), part = a.in[1];
  CopyWindow(gx, part, Window(a).first, true);
  return {gx};
}

Values OracleCast(const OracleArgs& a) {
  const bool grad = a.op == "cast_grad";
  DType dtype = a.in[0].desc.dtype;
  if (!grad) {
    const auto parsed = ParseDType(a.Get<std::string>("out_dtype"));
    CHECK(parsed.ok());
    dtype = *parsed;
  }
  Value out = a.in[grad ? 1 : 0];
  out.desc.dtype = dtype;
  // If the types are equal, the values are not rounded. Rounding would destroy the small steps of
  // finite differences.
  const bool same = dtype == a.in[grad ? 1 : 0].desc.dtype;
  for (double& v : out.v) v = same ? v : AsType(dtype, v);
  return {out};
}

}  // namespace tandem::optest
