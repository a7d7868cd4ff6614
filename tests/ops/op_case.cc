#include "tests/ops/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/rng.h"

namespace tandem::optest {
namespace {

std::string Text(const ops::Attr& attr) {
  if (const auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&attr)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&attr)) return absl::StrCat(*d);
  if (const auto* s = std::get_if<std::string>(&attr)) return *s;
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) {
    return absl::StrCat("[", absl::StrJoin(*v, ","), "]");
  }
  if (const auto* v = std::get_if<std::vector<double>>(&attr)) {
    return absl::StrCat("[", absl::StrJoin(*v, ","), "]");
  }
  return "none";
}

double SpecialAt(uint64_t i) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const double values[] = {kNan, 1.5, -1.5, kInf, -kInf, 0.0, -0.0, 3e38, -3e38, 1e-30, -1e-30};
  return values[i % std::size(values)];
}

double UniformDraw(const Draw& d, uint64_t key, uint64_t i) {
  const double u = UniformAt(key, i);
  return static_cast<float>(d.low + (d.high - d.low) * u);
}

double ElementOf(const Draw& d, uint64_t key, uint64_t i) {
  switch (d.kind) {
    case Draw::kAwayFromZero: {
      const double u = 2 * static_cast<double>(UniformAt(key, i)) - 1;
      return static_cast<float>(u < 0 ? 0.9 * u - 0.1 : 0.9 * u + 0.1);
    }
    case Draw::kFew:
      return std::floor(3.0 * static_cast<double>(UniformAt(key, i)));
    case Draw::kLabel:
      if (d.ignore_every > 0 && i % d.ignore_every == 0) return static_cast<double>(d.ignore);
      return std::floor(d.low + (d.high - d.low) * static_cast<double>(UniformAt(key, i)));
    case Draw::kSpecial:
      return static_cast<float>(SpecialAt(i));
    default:
      return UniformDraw(d, key, i);
  }
}

void FillDistinct(uint64_t key, std::vector<double>& v) {
  const auto order = Permutation(key, static_cast<uint32_t>(v.size()));
  const auto n = static_cast<double>(v.size());
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((2.0 * order[i] + 1.0) / n - 1.0);
}

void FillSoftmaxRows(const Draw& d, uint64_t key, std::vector<double>& v) {
  const auto classes = static_cast<size_t>(d.desc.shape[1]);
  for (size_t row = 0; row * classes < v.size(); ++row) {
    double total = 0;
    for (size_t c = 0; c < classes; ++c) {
      v[row * classes + c] = 0.05 + static_cast<double>(UniformAt(key, row * classes + c));
      total += v[row * classes + c];
    }
    for (size_t c = 0; c < classes; ++c) {
      v[row * classes + c] = static_cast<float>(v[row * classes + c] / total);
    }
  }
}

Value DrawAny(const Draw& d, uint64_t key, std::span<const Value> before) {
  if (d.kind == Draw::kDerived) return d.derive(before);
  Value value{d.desc, std::vector<double>(static_cast<size_t>(d.desc.shape.numel()))};
  if (d.kind == Draw::kDistinct) {
    FillDistinct(key, value.v);
  } else if (d.kind == Draw::kSoftmaxRows) {
    FillSoftmaxRows(d, key, value.v);
  } else {
    for (size_t i = 0; i < value.v.size(); ++i) value.v[i] = ElementOf(d, key, i);
  }
  return value;
}

// Draws one input. Rounds its elements to numbers that the type can represent.
Value DrawOne(const Draw& d, uint64_t key, std::span<const Value> before) {
  Value value = DrawAny(d, key, before);
  if (d.desc.dtype != DType::kF16 && d.desc.dtype != DType::kBF16) return value;
  value.desc = d.desc;
  std::vector<uint16_t> bits(value.v.size());
  Store(value, bits.data());
  return Load(d.desc, bits.data());
}

template <typename T>
void StoreAs(const Value& value, void* bytes) {
  auto* out = static_cast<T*>(bytes);
  for (size_t i = 0; i < value.v.size(); ++i) out[i] = static_cast<T>(value.v[i]);
}

// Replaces each element by the bits of its 16-bit float.
Value Bits(Value value, uint16_t (*convert)(float)) {
  for (double& v : value.v) v = convert(static_cast<float>(v));
  return value;
}

template <typename T>
void LoadAs(const void* bytes, std::vector<double>& v) {
  const auto* in = static_cast<const T*>(bytes);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(in[i]);
}

}  // namespace

Draw F32(const Shape& shape, double low, double high) {
  return {.desc = {DType::kF32, shape}, .low = low, .high = high};
}
Draw Distinct(const Shape& shape) {
  return {.desc = {DType::kF32, shape}, .kind = Draw::kDistinct};
}
Draw Few(const Shape& shape) { return {.desc = {DType::kF32, shape}, .kind = Draw::kFew}; }
Draw AwayFromZero(const Shape& shape) {
  return {.desc = {DType::kF32, shape}, .kind = Draw::kAwayFromZero};
}
Draw Special(const Shape& shape) { return {.desc = {DType::kF32, shape}, .kind = Draw::kSpecial}; }
Draw Labels(int64_t rows, int64_t classes, int ignore_every, int64_t ignore) {
  return {.desc = {DType::kI64, {rows, 1}},
          .kind = Draw::kLabel,
          .low = 0,
          .high = static_cast<double>(classes),
          .ignore_every = ignore_every,
          .ignore = ignore};
}
Draw Ids(const Shape& shape, int64_t rows) {
  return {.desc = {DType::kI64, shape},
          .kind = Draw::kLabel,
          .low = 0,
          .high = static_cast<double>(rows)};
}
Draw SparseRowIds(int64_t n, int64_t used, int64_t height) {
  const auto derive = [n, used, height](std::span<const Value>) {
    Value rows{{DType::kI64, {n}}, std::vector<double>(static_cast<size_t>(n), -1.0)};
    for (int64_t i = 0; i < used; ++i) {
      rows.v[static_cast<size_t>(i)] =
          std::floor(static_cast<double>(height * i + i) / static_cast<double>(used));
    }
    return rows;
  };
  return {.desc = {DType::kI64, {n}}, .kind = Draw::kDerived, .derive = derive};
}
Draw SparseValues(int64_t n, int64_t used, int64_t dim) {
  const auto derive = [n, used, dim](std::span<const Value>) {
    Value values{{DType::kF32, {n, dim}}, std::vector<double>(static_cast<size_t>(n * dim))};
    const uint64_t key = StreamKey(static_cast<uint64_t>(n), "sparse values");
    for (int64_t i = 0; i < used * dim; ++i) {
      values.v[static_cast<size_t>(i)] = UniformAt(key, static_cast<uint64_t>(i)) - 0.5f;
    }
    return values;
  };
  return {.desc = {DType::kF32, {n, dim}}, .kind = Draw::kDerived, .derive = derive};
}
Draw SoftmaxRows(const Shape& shape) {
  return {.desc = {DType::kF32, shape}, .kind = Draw::kSoftmaxRows};
}

std::string CaseName(const OpCase& c) {
  std::string name = c.op;
  for (const auto& slot : c.inputs) {
    if (slot.empty()) name += " -";
    for (const Draw& d : slot) {
      absl::StrAppend(&name, " ", d.kind == Draw::kSpecial ? "special " : "", ToString(d.desc));
    }
  }
  std::vector<std::string> attrs;
  for (const auto& [key, value] : c.attrs) attrs.push_back(key + "=" + Text(value));
  if (!attrs.empty()) absl::StrAppend(&name, " {", absl::StrJoin(attrs, " "), "}");
  for (const size_t slot : c.absent_outputs) absl::StrAppend(&name, " -out", slot);
  for (const ops::Op& inner : c.body) absl::StrAppend(&name, " ", inner.type);
  return name;
}

std::vector<Value> DrawInputs(const OpCase& c, uint64_t seed) {
  std::vector<Value> values;
  const std::string name = CaseName(c);
  for (const auto& slot : c.inputs) {
    if (slot.empty()) values.emplace_back();
    for (const Draw& d : slot) {
      const uint64_t key = StreamKey(seed, absl::StrCat(name, ":", values.size()));
      values.push_back(DrawOne(d, key, values));
    }
  }
  return values;
}

ops::Op MakeOp(const OpCase& c) {
  const ops::OpDef* def = ops::FindOp(c.op);
  CHECK(def != nullptr) << c.op;
  ops::Op op{
      .type = c.op, .inputs = {}, .outputs = {}, .attrs = c.attrs, .source = "", .body = c.body};
  size_t position = 0;
  for (const auto& slot : c.inputs) {
    auto& names = op.inputs.emplace_back();
    if (slot.empty()) ++position;
    for (size_t i = 0; i < slot.size(); ++i) names.push_back(absl::StrCat("in", position++));
  }
  for (size_t s = 0; s < def->outputs.size(); ++s) {
    auto& names = op.outputs.emplace_back();
    const bool absent = std::count(c.absent_outputs.begin(), c.absent_outputs.end(), s) > 0;
    const size_t n = def->outputs[s].arity == ops::Arity::kMany ? c.many_outputs : 1;
    for (size_t i = 0; i < n && !absent; ++i) names.push_back(absl::StrCat("out", s + i));
  }
  return op;
}

void Store(const Value& value, void* bytes) {
  switch (value.desc.dtype) {
    case DType::kF32:
      return StoreAs<float>(value, bytes);
    case DType::kI32:
      return StoreAs<int32_t>(value, bytes);
    case DType::kI64:
      return StoreAs<int64_t>(value, bytes);
    case DType::kU8:
      return StoreAs<uint8_t>(value, bytes);
    case DType::kF16:
      return StoreAs<uint16_t>(Bits(value, F32ToF16), bytes);
    case DType::kBF16:
      return StoreAs<uint16_t>(Bits(value, F32ToBF16), bytes);
  }
}

Value Load(const TensorDesc& desc, const void* bytes) {
  Value value{desc, std::vector<double>(static_cast<size_t>(desc.shape.numel()))};
  switch (desc.dtype) {
    case DType::kF32:
      LoadAs<float>(bytes, value.v);
      break;
    case DType::kI32:
      LoadAs<int32_t>(bytes, value.v);
      break;
    case DType::kI64:
      LoadAs<int64_t>(bytes, value.v);
      break;
    case DType::kU8:
      LoadAs<uint8_t>(bytes, value.v);
      break;
    case DType::kF16:
    case DType::kBF16:
      LoadAs<uint16_t>(bytes, value.v);
      for (double& v : value.v) {
        const auto bits = static_cast<uint16_t>(v);
        v = desc.dtype == DType::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
      }
      break;
  }
  return value;
}

std::string Compare(const Value& got, const Value& want, const Tolerance& tolerance) {
  if (got.desc != want.desc) {
    return absl::StrCat("is ", ToString(got.desc), ", expected ", ToString(want.desc));
  }
  double largest = 0;
  for (const double w : want.v) {
    if (std::isfinite(w)) largest = std::max(largest, std::abs(w));
  }
  size_t wrong = 0;
  std::string first;
  for (size_t i = 0; i < want.v.size(); ++i) {
    const double w = want.v[i], g = got.v[i];
    if (w == g || (std::isnan(w) && std::isnan(g))) continue;
    const double allowed = tolerance.rel * std::abs(w) + tolerance.of_max * largest + tolerance.abs;
    if (std::isfinite(w) && std::abs(g - w) <= allowed) continue;
    if (wrong++ == 0) {
      first = absl::StrFormat("[%d] is %.9g, expected %.9g (allowed difference %.3g)", i, g, w,
                              allowed);
    }
  }
  if (wrong == 0) return "";
  return absl::StrFormat("%s; %d of %d are wrong", first, wrong, want.v.size());
}

}  // namespace tandem::optest
