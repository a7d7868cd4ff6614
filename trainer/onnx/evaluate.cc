#include "trainer/onnx/evaluate.h"

#include <algorithm>
#include <cmath>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/evaluate_moves.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Values = std::span<const KnownNumber>;
// Computes one element. `whole`: the inputs are integers. Returns false if the result cannot be
// known.
using ElementFn = bool (*)(Values v, bool whole, KnownNumber* out);

enum class Result : uint8_t { kLikeInputs, kTruth };

bool IsFixed(const KnownNumber& v) { return v.slope == 0 && !IsBatch(v.whole); }

// Computes the node element by element. `typed`: the inputs that have the type of the result.
Evaluated Elements(std::span<const KnownTable> inputs, std::span<const KnownTable> typed,
                   Result result, ElementFn fn) {
  for (const KnownTable& input : inputs) {
    if (static_cast<int64_t>(input.numbers.size()) != input.shape.numel())
      return InvalidArgument("an input of the node is missing [TD2108]");
  }
  TD_ASSIGN_OR_RETURN(const auto joint, JointOf(inputs));
  if (!joint || joint->shape.numel() > kEvaluatedMax) return std::nullopt;
  const bool whole = std::all_of(typed.begin(), typed.end(), [](const auto& t) { return t.whole; });
  if (!whole && std::any_of(typed.begin(), typed.end(), [](const auto& t) { return t.whole; })) {
    return InvalidArgument("the inputs have different element types [TD2108]");
  }
  const bool wide = std::all_of(typed.begin(), typed.end(), [](const auto& t) { return t.wide; });
  KnownTable out{.whole = whole && result == Result::kLikeInputs,
                 .wide = wide && result == Result::kLikeInputs,
                 .shape = joint->shape,
                 .batch = joint->batch,
                 .numbers = {}};
  std::vector<KnownNumber> v(inputs.size());
  for (int64_t i = 0; i < out.shape.numel(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int64_t at = BroadcastSource(inputs[k].shape, out.shape, i);
      v[k] = inputs[k].numbers[static_cast<size_t>(at)];
    }
    if (!fn(v, whole, &out.numbers.emplace_back())) return std::nullopt;
  }
  return out;
}

Status NeedInputs(const std::vector<KnownTable>& inputs, size_t count) {
  if (inputs.size() == count) return OkStatus();
  return InvalidArgument("the node has %d inputs, expected %d [TD2108]", inputs.size(), count);
}

template <ElementFn kFn, Result kResult, size_t kCount>
Evaluated Plain(const Node&, std::vector<KnownTable>& in) {
  TD_RETURN_IF_ERROR(NeedInputs(in, kCount));
  return Elements(in, in, kResult, kFn);
}

// Returns the slope (KnownNumber::slope) of the product of `a` and `b`. nullopt: the product does
// not depend linearly on the number of the sample.
std::optional<int64_t> ProductSlope(const KnownNumber& a, const KnownNumber& b) {
  if (a.slope == 0 && b.slope == 0) return 0;
  if ((a.slope != 0 && b.slope != 0) || IsBatch(a.whole) || IsBatch(b.whole)) return std::nullopt;
  const auto slope =
      a.slope != 0 ? ComputeSize('*', a.slope, b.whole) : ComputeSize('*', b.slope, a.whole);
  return slope;
}

template <char kOp>
bool Arithmetic(Values v, bool whole, KnownNumber* out) {
  const KnownNumber &a = v[0], &b = v[1];
  if (!whole) {
    out->number = kOp == '+'   ? a.number + b.number
                  : kOp == '-' ? a.number - b.number
                  : kOp == '*' ? a.number * b.number
                               : a.number / b.number;
    return true;
  }
  const bool sloped = a.slope != 0 || b.slope != 0;
  if (sloped && (IsBatch(a.whole) || IsBatch(b.whole) || kOp == '/' || kOp == '%')) return false;
  const auto size = ComputeSize(kOp, a.whole, b.whole);
  const auto slope = kOp == '*' ? ProductSlope(a, b)
                     : sloped   ? ComputeSize(kOp, a.slope, b.slope)
                                : std::optional<int64_t>(0);
  if (!size || !slope) return false;
  out->whole = *size;
  out->slope = *slope;
  return true;
}

bool Power(Values v, bool whole, KnownNumber* out) {
  const double power = whole ? static_cast<double>(v[1].whole) : v[1].number;
  if (whole && (!IsFixed(v[0]) || !IsFixed(v[1]) || power < 0)) return false;
  const double result = std::pow(whole ? static_cast<double>(v[0].whole) : v[0].number, power);
  if (whole && !(std::abs(result) < 0x1p53)) return false;
  out->number = result;
  if (whole) out->whole = static_cast<int64_t>(result);
  return true;
}

// Computes a power. If the exponent is an integer and the base is a float, first converts the
// exponent to a float.
Evaluated Pow(const Node&, std::vector<KnownTable>& in) {
  TD_RETURN_IF_ERROR(NeedInputs(in, 2));
  if (in[1].whole && !in[0].whole) {
    for (KnownNumber& v : in[1].numbers) {
      if (!IsFixed(v)) return std::nullopt;
      v.number = static_cast<double>(v.whole);
    }
    in[1].whole = false;
  }
  in[1].wide = in[0].wide;
  return Elements(in, in, Result::kLikeInputs, Power);
}

template <bool kMax>
bool Bound(Values v, bool whole, KnownNumber* out) {
  *out = v[0];
  for (const KnownNumber& next : v.subspan(1)) {
    if (whole && (!IsFixed(*out) || !IsFixed(next))) return false;
    const bool greater = whole ? next.whole > out->whole : next.number > out->number;
    const bool less = whole ? next.whole < out->whole : next.number < out->number;
    if (kMax ? greater : less) *out = next;
  }
  return true;
}

template <bool kMax>
Evaluated Bounds(const Node&, std::vector<KnownTable>& in) {
  return Elements(in, in, Result::kLikeInputs, Bound<kMax>);
}

// Compares two numbers. Two integers can be ordered only if both are multiples of the batch size,
// or neither is. A multiple of the batch size never equals a plain number.
template <char kOrder, bool kNegated>
bool Compare(Values v, bool whole, KnownNumber* out) {
  const KnownNumber &a = v[0], &b = v[1];
  if (whole && a.slope != b.slope) return false;
  if (whole && kOrder != '=' && IsBatch(a.whole) != IsBatch(b.whole)) return false;
  const bool is = kOrder == '='   ? (whole ? a.whole == b.whole : a.number == b.number)
                  : kOrder == '>' ? (whole ? a.whole > b.whole : a.number > b.number)
                                  : (whole ? a.whole < b.whole : a.number < b.number);
  out->number = is != kNegated ? 1 : 0;
  return true;
}

template <bool kBoth>
bool Join(Values v, bool whole, KnownNumber* out) {
  if (whole) return false;
  const bool a = v[0].number != 0, b = v[1].number != 0;
  out->number = (kBoth ? a && b : a || b) ? 1 : 0;
  return true;
}

bool Not(Values v, bool whole, KnownNumber* out) {
  if (whole) return false;
  out->number = v[0].number != 0 ? 0 : 1;
  return true;
}

template <double (*kFn)(double)>
bool Function(Values v, bool whole, KnownNumber* out) {
  if (whole) return false;
  out->number = kFn(v[0].number);
  return true;
}
double Log(double x) { return std::log(x); }
double Exp(double x) { return std::exp(x); }
double Sqrt(double x) { return std::sqrt(x); }
double Sin(double x) { return std::sin(x); }
double Cos(double x) { return std::cos(x); }
double Inverse(double x) { return 1 / x; }
double Ceil(double x) { return std::ceil(x); }
double Floor(double x) { return std::floor(x); }

template <bool kNegative>
bool Sign(Values v, bool whole, KnownNumber* out) {
  if (whole && (!IsFixed(v[0]) || v[0].whole == INT64_MIN)) return false;
  const bool turn = kNegative || (whole ? v[0].whole < 0 : v[0].number < 0);
  out->whole = turn ? -v[0].whole : v[0].whole;
  out->number = turn ? -v[0].number : v[0].number;
  return true;
}

Evaluated Where(const Node&, std::vector<KnownTable>& in) {
  TD_RETURN_IF_ERROR(NeedInputs(in, 3));
  if (in[0].whole)
    return InvalidArgument("the condition has integers, expected truth values [TD2108]");
  return Elements(in, std::span(in).subspan(1), Result::kLikeInputs,
                  [](Values v, bool, KnownNumber* out) {
                    *out = v[0].number != 0 ? v[1] : v[2];
                    return true;
                  });
}

// Computes the remainder of sizes. PyTorch writes it in front of the reshapes of attention.
Evaluated Mod(const Node& n, std::vector<KnownTable>& in) {
  TD_RETURN_IF_ERROR(NeedInputs(in, 2));
  TD_RETURN_IF_ERROR(n.attributes().Only("fmod", 0));
  if (!in[0].whole) return std::nullopt;
  return Elements(in, in, Result::kLikeInputs, Arithmetic<'%'>);
}

Evaluated CastTo(KnownTable table, int64_t to) {
  const bool whole = to == ::onnx::TensorProto::INT64 || to == ::onnx::TensorProto::INT32;
  const bool truth = to == ::onnx::TensorProto::BOOL;
  const bool wide = to == ::onnx::TensorProto::DOUBLE;
  if (!whole && !truth && !wide && to != ::onnx::TensorProto::FLOAT) return std::nullopt;
  for (KnownNumber& v : table.numbers) {
    if (whole == table.whole && !truth) continue;
    if (table.whole && !IsFixed(v)) return std::nullopt;
    if (whole) {
      // Processors convert an infinity to the least integer. T5 has one, which it does not use.
      const bool fits = std::abs(v.number) < 0x1p53;
      v.whole = fits ? static_cast<int64_t>(v.number) : INT64_MIN;
      v.number = 0;
      continue;
    }
    if (table.whole) v.number = static_cast<double>(v.whole);
    if (truth) v.number = v.number != 0 ? 1 : 0;
    v.whole = 0;
  }
  table.whole = whole;
  table.wide = wide;
  return table;
}

Evaluated Cast(const Node& n, std::vector<KnownTable>& in) {
  TD_RETURN_IF_ERROR(NeedInputs(in, 1));
  n.attributes().Int("saturate", 1);  // read but ignored: applies only to 8-bit types
  return CastTo(std::move(in[0]), n.attributes().Int("to", 0));
}

constexpr Result kLike = Result::kLikeInputs, kTruth = Result::kTruth;

constexpr EvaluateRow kElementRows[] = {
    {"Abs", Plain<Sign<false>, kLike, 1>},
    {"Add", Plain<Arithmetic<'+'>, kLike, 2>},
    {"And", Plain<Join<true>, kTruth, 2>},
    {"Cast", Cast},
    {"Ceil", Plain<Function<Ceil>, kLike, 1>},
    {"Cos", Plain<Function<Cos>, kLike, 1>},
    {"Div", Plain<Arithmetic<'/'>, kLike, 2>},
    {"Equal", Plain<Compare<'=', false>, kTruth, 2>},
    {"Exp", Plain<Function<Exp>, kLike, 1>},
    {"Floor", Plain<Function<Floor>, kLike, 1>},
    {"Greater", Plain<Compare<'>', false>, kTruth, 2>},
    {"GreaterOrEqual", Plain<Compare<'<', true>, kTruth, 2>},
    {"Less", Plain<Compare<'<', false>, kTruth, 2>},
    {"LessOrEqual", Plain<Compare<'>', true>, kTruth, 2>},
    {"Log", Plain<Function<Log>, kLike, 1>},
    {"Max", Bounds<true>},
    {"Min", Bounds<false>},
    {"Mod", Mod},
    {"Mul", Plain<Arithmetic<'*'>, kLike, 2>},
    {"Neg", Plain<Sign<true>, kLike, 1>},
    {"Not", Plain<Not, kTruth, 1>},
    {"Or", Plain<Join<false>, kTruth, 2>},
    {"Pow", Pow},
    {"Reciprocal", Plain<Function<Inverse>, kLike, 1>},
    {"Sin", Plain<Function<Sin>, kLike, 1>},
    {"Sqrt", Plain<Function<Sqrt>, kLike, 1>},
    {"Sub", Plain<Arithmetic<'-'>, kLike, 2>},
    {"Where", Where},
};

}  // namespace

std::optional<std::vector<int64_t>> ListOf(const KnownTable& table) {
  if (!table.whole || table.batch >= 0) return std::nullopt;
  std::vector<int64_t> list;
  for (const KnownNumber& v : table.numbers) list.push_back(v.whole);
  return list;
}

StatusOr<std::optional<JointShape>> JointOf(std::span<const KnownTable> tables) {
  JointShape joint;
  int rank = 0;
  for (const KnownTable& table : tables) rank = std::max(rank, table.shape.rank());
  joint.shape = Shape(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  for (const KnownTable& table : tables) {
    const int skip = rank - table.shape.rank();
    for (int d = 0; d < table.shape.rank(); ++d) {
      int64_t& size = joint.shape[skip + d];
      if (size != table.shape[d] && size != 1 && table.shape[d] != 1) {
        return InvalidArgument("shapes %s and %s cannot be broadcast together [TD2108]",
                               ToString(joint.shape), ToString(table.shape));
      }
      if (size == 1) size = table.shape[d];
    }
    if (table.batch < 0) continue;
    if (joint.batch >= 0 && joint.batch != skip + table.batch) return std::nullopt;
    joint.batch = skip + table.batch;
  }
  if (joint.batch >= 0 && joint.shape[joint.batch] != 1) return std::nullopt;
  TD_ASSIGN_OR_RETURN(joint.shape, ParseShape(joint.shape.dims()));
  return joint;
}

int64_t BroadcastSource(const Shape& from, const Shape& shape, int64_t i) {
  TD_REQUIRE(from.rank() <= shape.rank());
  int64_t at = 0, step = 1;
  for (int d = shape.rank(); d-- > 0; i /= shape[d]) {
    const int own = d - (shape.rank() - from.rank());
    if (own < 0) continue;
    if (from[own] != 1) at += i % shape[d] * step;
    step *= from[own];
  }
  return at;
}

StatusOr<bool> Evaluate(const std::string& type, const Node& n) {
  const EvaluateRow* found = nullptr;
  for (const std::span<const EvaluateRow> rows :
       {std::span<const EvaluateRow>(kElementRows), EvaluateMoves()}) {
    for (const EvaluateRow& row : rows) {
      if (type == row.type) found = &row;
    }
  }
  if (found == nullptr || !n.has(0) || n.outputs() != 1) return false;
  std::vector<KnownTable> inputs(n.inputs());
  int64_t left = kEvaluatedMax;  // number of elements that the remaining inputs may have together
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!n.has(i)) continue;
    auto table = n.graph().known().Table(n.value(i), left);
    // Rejects a tensor without elements: one of its dimensions is 0, and the others may be so large
    // that the sizes of results overflow.
    if (!table || (table->shape.numel() == 0 && table->shape.rank() > 1)) return false;
    left -= table->shape.numel();
    inputs[i] = *std::move(table);
  }
  TD_ASSIGN_OR_RETURN(auto result, found->fn(n, inputs));
  if (!result) return false;
  TD_REQUIRE(static_cast<int64_t>(result->numbers.size()) == result->shape.numel());
  TD_RETURN_IF_ERROR(n.graph().known().AddTable(n.out(), *result));
  return true;
}

}  // namespace tandem::onnx
