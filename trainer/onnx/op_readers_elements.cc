// Reads elementwise ONNX nodes. Truth values are the numbers 0 and 1.
#include "trainer/onnx/op_readers_elements.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/op_readers_known.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr double kLargestFloat = std::numeric_limits<float>::max();
// Numbers of at least this size mask values: the sum with such a number does not depend on the
// other summand.
constexpr float kHides = 1e9f;

// Aligns the last dimensions of X and Y. Sets `middle` to the dimensions of Y without its outer and
// inner dimensions of size 1. Returns the dimension of X with which the first dimension of `middle`
// is aligned. -1: the shapes do not match.
int MeetsAt(const Shape& x, const Shape& y, Ints* middle) {
  const auto dims = y.dims();
  size_t begin = 0, end = dims.size();
  while (begin < end && dims[begin] == 1) ++begin;
  while (end > begin && dims[end - 1] == 1) --end;
  middle->assign(dims.begin() + static_cast<int64_t>(begin),
                 dims.begin() + static_cast<int64_t>(end));
  const int64_t axis = x.rank() - y.rank() + static_cast<int64_t>(begin);
  if (y.rank() > x.rank() || middle->empty()) return -1;
  for (size_t i = 0; i < middle->size(); ++i) {
    if (x[static_cast<int>(axis) + static_cast<int>(i)] != (*middle)[i]) return -1;
  }
  return static_cast<int>(axis);
}

StatusOr<std::string> State(const Node& n, const char* name, const Shape& shape, float value) {
  TD_ASSIGN_OR_RETURN(Tensor tensor, n.graph().known().NewTensor(DType::kF32, shape));
  std::fill(tensor.span<float>().begin(), tensor.span<float>().end(), value);
  const std::string known = n.out() + "." + name;
  n.graph().known().Add(known, std::move(tensor));
  return n.graph().Var(known);
}

// Appends an operator whose result has the name of the node's result.
StatusOr<std::string> Named(const Node& n, const std::string& type, const std::string& x,
                            const std::string& y, ops::AttrMap attrs = {}) {
  const std::string out = n.graph().program().NewVar(n.out());
  TD_RETURN_IF_ERROR(n.graph().program().Append(type, {{x}, {y}}, std::move(attrs), out));
  return out;
}

// Computes an elementwise node as a matrix product. For a multiplication, the matrix product is X,
// as a column, times a row with the numbers of Y. For an addition or subtraction, Y is a single
// number, and the matrix product is X times 1 plus or minus this number.
StatusOr<std::string> AsProduct(const Node& n, const std::string& type, const std::string& x,
                                std::string y) {
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const Ints column, FillSizes(n.graph().program(), x, {-1, 1}));
  TD_ASSIGN_OR_RETURN(const std::string rows, n.TempReshape(x, column));
  const int64_t width = n.graph().program().Desc(y).shape.numel();
  const bool product = type == "elementwise_mul";
  TD_ASSIGN_OR_RETURN(y, n.TempReshape(y, product ? Ints{1, width} : Ints{width}));
  if (type == "elementwise_sub") {
    TD_ASSIGN_OR_RETURN(y, n.Temp("scale", {{y}}, {{"scale", -1.0}}));
  }
  std::string out;
  if (product) {
    TD_ASSIGN_OR_RETURN(out, n.Temp("fc", {{rows}, {y}, {}}));
    if (width > 1) sizes.back() = width;
  } else {
    TD_ASSIGN_OR_RETURN(const std::string one, State(n, "one", {1, 1}, 1));
    TD_ASSIGN_OR_RETURN(out, n.Temp("fc", {{rows}, {one}, {y}}));
  }
  const std::string named = n.graph().program().NewVar(n.out());
  TD_RETURN_IF_ERROR(n.graph().program().Reshape(out, sizes, named));
  return named;
}

// Broadcasts one of two inputs, so that the shapes of X and Y match. Repeats the dimensions of size
// 1 of X. If X already has the joint shape, repeats the dimensions of size 1 of Y instead. Leaves X
// and Y unchanged if the shapes cannot be made to match in this way.
Status Widen(const Node& n, std::string* x, std::string* y) {
  TD_ASSIGN_OR_RETURN(const Ints of_x, n.graph().program().Sizes(*x));
  TD_ASSIGN_OR_RETURN(const Ints of_y, n.graph().program().Sizes(*y));
  if (of_y.size() > of_x.size()) return OkStatus();
  Ints joint = of_x, wide = of_y;
  const size_t skip = of_x.size() - of_y.size();
  for (size_t i = 0; i < of_y.size(); ++i) {
    int64_t& size = joint[skip + i];
    if (size == 1) size = of_y[i];
    if (size == 0) return OkStatus();
    if (of_y[i] != size && of_y[i] != 1) return OkStatus();
    if (size != of_x[skip + i] && IsBatch(size)) return OkStatus();
    if (!IsBatch(size)) wide[i] = size;
  }
  if (joint != of_x) {
    TD_ASSIGN_OR_RETURN(*x, Widened(n, *x, joint));
  } else if (wide != of_y) {
    TD_ASSIGN_OR_RETURN(*y, Widened(n, *y, wide));
  }
  return OkStatus();
}

StatusOr<std::string> Broadcast(const Node& n, const std::string& type, const std::string& x,
                                std::string y) {
  const Shape of_x = n.graph().program().Desc(x).shape, of_y = n.graph().program().Desc(y).shape;
  if (of_x == of_y) return Named(n, type, x, y);
  Ints middle;
  const int axis = MeetsAt(of_x, of_y, &middle);
  const bool product = type == "elementwise_mul";
  const bool one = of_y.numel() == 1 && of_y.rank() <= of_x.rank() &&
                   (product || type == "elementwise_add" || type == "elementwise_sub");
  const bool outer =
      product && axis < 0 && of_y.rank() == 1 && of_x.rank() > 0 && of_x[of_x.rank() - 1] == 1;
  if (one || outer) return AsProduct(n, type, x, y);
  if (axis < 0) {
    std::string wide_x = x, wide_y = y;
    TD_RETURN_IF_ERROR(Widen(n, &wide_x, &wide_y));
    if (wide_x != x || wide_y != y) return Broadcast(n, type, wide_x, wide_y);
    return Unimplemented("shapes %s and %s cannot be broadcast [TD7015]", ToString(of_x),
                         ToString(of_y));
  }
  if (static_cast<int>(middle.size()) != of_y.rank()) {
    TD_ASSIGN_OR_RETURN(const Ints sizes, n.graph().program().Sizes(y));
    Ints run;
    const size_t begin = static_cast<size_t>(of_y.rank() - (of_x.rank() - axis));
    for (size_t i = 0; i < middle.size(); ++i) run.push_back(sizes[begin + i]);
    TD_ASSIGN_OR_RETURN(y, n.TempReshape(y, run));
  }
  return Named(n, type, x, y, {{"axis", int64_t{axis}}});
}

// Returns input `i` if it is one known number, a float or an integer.
std::optional<double> SingleNumber(const Node& n, size_t i) {
  if (const float* number = n.Scalar(i)) return *number;
  const auto known = n.Known(i);
  const bool one = known && known->size() == 1 && !IsBatch((*known)[0]);
  return one ? std::optional(static_cast<double>((*known)[0])) : std::nullopt;
}

// Expresses the node as scale * X + bias, if one of its inputs is a known number. Returns false if
// this form is not possible.
bool AsScale(const Node& n, const std::string& type, size_t* x, double* scale, double* bias) {
  const auto right = SingleNumber(n, 1), left = SingleNumber(n, 0);
  if (!right && (!left || type == "elementwise_div")) return false;
  *x = right ? 0 : 1;
  const double c = right ? *right : *left;
  *scale = type == "elementwise_mul" ? c : type == "elementwise_div" ? 1 / c : 1;
  *bias = type == "elementwise_add" ? c : type == "elementwise_sub" ? -c : 0;
  if (type == "elementwise_sub" && *x == 1) {
    *scale = -1;
    *bias = c;
  }
  return type != "elementwise_max";
}

// Returns input `i` as floats; integers above 2^24 lose digits.
StatusOr<std::string> Operand(const Node& n, size_t i) {
  if (const auto known = n.Known(i); known && std::none_of(known->begin(), known->end(), IsBatch)) {
    const Shape shape = n.graph().known().Find(n.value(i))->shape();
    TD_ASSIGN_OR_RETURN(Tensor floats, n.graph().known().NewTensor(DType::kF32, shape));
    std::transform(known->begin(), known->end(), floats.span<float>().begin(),
                   [](int64_t number) { return static_cast<float>(number); });
    const std::string name = n.value(i) + ".floats";
    n.graph().known().Add(name, std::move(floats));
    return n.graph().Var(name);
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(i));
  if (n.graph().program().Desc(x).dtype == DType::kF32) return x;
  if (n.op_type() == "Div")
    return Unimplemented("a quotient of integers is not supported [TD7015]");
  return n.Temp("cast", {{x}}, {{"out_dtype", std::string("f32")}});
}

// Reads a Mod that Evaluate could not compute.
Status Mod(const Node&) {
  return Unimplemented(
      "Mod is supported only for constants and dimensions, whose values the import knows [TD7015]");
}

template <const char* kType>
Status Arithmetic(const Node& n) {
  if (n.inputs() != 2)
    return Unimplemented("the node has %d inputs, expected 2 [TD7015]", n.inputs());
  size_t at = 0;
  double scale = 1, bias = 0;
  if (AsScale(n, kType, &at, &scale, &bias)) {
    TD_ASSIGN_OR_RETURN(const std::string x, Operand(n, at));
    return n.Done("scale", {{x}}, {{"scale", scale}, {"bias", bias}});
  }
  TD_ASSIGN_OR_RETURN(const std::string x, Operand(n, 0));
  TD_ASSIGN_OR_RETURN(const std::string y, Operand(n, 1));
  TD_ASSIGN_OR_RETURN(const std::string out, Elementwise(n, kType, x, y));
  return n.Is(out);
}
constexpr char kElementAdd[] = "elementwise_add", kElementSub[] = "elementwise_sub",
               kElementMul[] = "elementwise_mul", kElementDiv[] = "elementwise_div";

// Computes the maximum or the minimum of two inputs. For a minimum, one of the inputs must be a
// known number.
Status Bound(const Node& n, bool max) {
  if (n.inputs() != 2)
    return Unimplemented("the node has %d inputs, expected 2 [TD7015]", n.inputs());
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const float* limit = n.Scalar(i);
    if (limit == nullptr) continue;
    TD_ASSIGN_OR_RETURN(const std::string x, n.in(1 - i));
    return n.Done("clip", {{x}},
                  {{"min", max ? *limit : -kLargestFloat}, {"max", max ? kLargestFloat : *limit}});
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string y, n.in(1));
  if (!max)
    return Unimplemented(
        "the model computes both inputs of the node, expected a constant as one input [TD7015]");
  TD_ASSIGN_OR_RETURN(const std::string out, Elementwise(n, "elementwise_max", x, y));
  return n.Is(out);
}
Status Max(const Node& n) { return Bound(n, true); }
Status Min(const Node& n) { return Bound(n, false); }

Status Clip(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  double limits[] = {n.attributes().Float("min", -kLargestFloat),
                     n.attributes().Float("max", kLargestFloat)};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!n.has(i + 1)) continue;
    const float* limit = n.Scalar(i + 1);
    if (limit == nullptr)
      return Unimplemented(
          "the limit of Clip is computed by a node, but must be a constant [TD7015]");
    limits[i] = *limit;
  }
  return n.Done("clip", {{x}}, {{"min", limits[0]}, {"max", limits[1]}});
}

enum class Order : uint8_t { kEqual, kGreater, kLess };

// Returns input `input` as floats; integers above 2^24 lose digits. Sets `fraction` if the input
// has type float.
StatusOr<std::string> Numbers(const Node& n, size_t input, bool* fraction) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(input));
  if (n.graph().program().Desc(x).dtype == DType::kF32) {
    *fraction = true;
    return x;
  }
  return n.Temp("cast", {{x}}, {{"out_dtype", std::string("f32")}});
}

// Returns input `i` if it is a known number; nullopt: a node computes the input.
StatusOr<std::optional<double>> KnownNumber(const Node& n, size_t i) {
  if (const float* number = n.Scalar(i)) return *number;
  const auto known = n.Known(i);
  if (!known) return std::nullopt;
  if (known->size() != 1)
    return Unimplemented(
        "an input to compare is a list of constants, expected one number [TD7015]");
  return static_cast<double>((*known)[0]);
}

// Returns the first input minus the second input. Sets `fraction` if an input has type float.
StatusOr<std::string> Difference(const Node& n, bool* fraction) {
  TD_ASSIGN_OR_RETURN(const auto a, KnownNumber(n, 0));
  TD_ASSIGN_OR_RETURN(const auto b, KnownNumber(n, 1));
  if (a || b) {
    TD_ASSIGN_OR_RETURN(const std::string x, Numbers(n, a ? 1 : 0, fraction));
    return n.Temp("scale", {{x}}, {{"scale", a ? -1.0 : 1.0}, {"bias", a ? *a : -*b}});
  }
  TD_ASSIGN_OR_RETURN(const std::string x, Numbers(n, 0, fraction));
  TD_ASSIGN_OR_RETURN(const std::string y, Numbers(n, 1, fraction));
  return Elementwise(n, "elementwise_sub", x, y);
}

// Compares two inputs by a clip of their difference to [0, 1]. For floats, the difference is first
// scaled so that the smallest positive difference becomes larger than 1, and a difference of 0 or
// less becomes less than 0. The clip has no gradient there.
StatusOr<std::string> Compared(const Node& n, Order order) {
  bool fraction = false;
  TD_ASSIGN_OR_RETURN(std::string difference, Difference(n, &fraction));
  if (order != Order::kGreater) {
    TD_ASSIGN_OR_RETURN(const std::string negative,
                        n.Temp("scale", {{difference}}, {{"scale", -1.0}}));
    if (order == Order::kLess) {
      difference = negative;
    } else {
      TD_ASSIGN_OR_RETURN(difference, n.Temp("elementwise_max", {{difference}, {negative}}));
    }
  }
  if (fraction) {
    TD_ASSIGN_OR_RETURN(
        difference, n.Temp("scale", {{difference}}, {{"scale", kLargestFloat}, {"bias", -0.5}}));
  }
  return n.Temp("clip", {{difference}}, {{"min", 0.0}, {"max", 1.0}});
}

Status Negated(const Node& n, const std::string& truth) {
  return n.Done("scale", {{truth}}, {{"scale", -1.0}, {"bias", 1.0}});
}

// Compares two inputs. kNegated: the result is the opposite truth value.
template <Order kOrder, bool kNegated>
Status Compare(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string is, Compared(n, kOrder));
  constexpr bool kOpposite = (kOrder == Order::kEqual) != kNegated;
  return kOpposite ? Negated(n, is) : n.Is(is);
}

Status Not(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return Negated(n, x);
}

// Combines two truth values: AND if kBoth is set, otherwise OR.
template <bool kBoth>
Status Join(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string y, n.in(1));
  TD_ASSIGN_OR_RETURN(const std::string out,
                      Elementwise(n, kBoth ? "elementwise_mul" : "elementwise_max", x, y));
  return n.Is(out);
}

// Returns a variable that is `number` where the condition has the value `wanted`, and 0 elsewhere.
StatusOr<std::string> NumberWhere(const Node& n, bool wanted, float number) {
  if (const Tensor* known = n.graph().known().Untrained(n.value(0)); known != nullptr) {
    TD_ASSIGN_OR_RETURN(Tensor mask, n.graph().known().NewTensor(DType::kF32, known->shape()));
    const auto truths = known->span<float>();
    std::transform(truths.begin(), truths.end(), mask.span<float>().begin(),
                   [&](float truth) { return (truth != 0) == wanted ? number : 0.0f; });
    const std::string name = n.out() + (wanted ? ".where" : ".else");
    n.graph().known().Add(name, std::move(mask));
    return n.graph().Var(name);
  }
  TD_ASSIGN_OR_RETURN(const std::string truth, n.in(0));
  const double finite = std::clamp<double>(number, -kLargestFloat, kLargestFloat);
  return n.Temp("scale", {{truth}},
                {{"scale", wanted ? finite : -finite}, {"bias", wanted ? 0.0 : finite}});
}

// Returns a variable that is input `i` where the condition has the value `wanted`, and 0 elsewhere.
StatusOr<std::string> ValueWhere(const Node& n, size_t i, bool wanted) {
  if (const float* number = n.Scalar(i)) return NumberWhere(n, wanted, *number);
  TD_ASSIGN_OR_RETURN(const std::string value, n.in(i));
  TD_ASSIGN_OR_RETURN(const std::string truth, NumberWhere(n, wanted, 1));
  return Elementwise(n, "elementwise_mul", value, truth);
}

// Computes the sum of two terms: each input where the condition selects this input, and 0
// elsewhere. An infinite mask number is not multiplied by 0, because the product would be NaN. The
// other input is added unchanged, because the mask number dominates the sum.
Status Where(const Node& n) {
  if (!n.has(0) || !n.has(1) || !n.has(2))
    return InvalidArgument("an input of the node is missing, expected 3 inputs [TD2108]");
  std::string sides[2];
  for (const size_t i : {size_t{1}, size_t{2}}) {
    const float* other = n.Scalar(3 - i);
    const bool hidden = other != nullptr && !(std::abs(*other) < kHides);
    if (hidden) {
      TD_ASSIGN_OR_RETURN(sides[i - 1], n.in(i));
    } else {
      TD_ASSIGN_OR_RETURN(sides[i - 1], ValueWhere(n, i, i == 1));
    }
  }
  TD_ASSIGN_OR_RETURN(const std::string out, Elementwise(n, "elementwise_add", sides[0], sides[1]));
  return n.Is(out);
}

constexpr ReadRow kReadElementsRows[] = {
    {"Add", Arithmetic<kElementAdd>},
    {"And", Join<true>},
    {"Clip", Clip},
    {"Div", Arithmetic<kElementDiv>},
    {"Equal", Compare<Order::kEqual, false>},
    {"Greater", Compare<Order::kGreater, false>},
    {"GreaterOrEqual", Compare<Order::kLess, true>},
    {"Less", Compare<Order::kLess, false>},
    {"LessOrEqual", Compare<Order::kGreater, true>},
    {"Max", Max},
    {"Min", Min},
    {"Mod", Mod},
    {"Mul", Arithmetic<kElementMul>},
    {"Not", Not},
    {"Or", Join<false>},
    {"Sub", Arithmetic<kElementSub>},
    {"Where", Where},
};

}  // namespace

StatusOr<std::string> Elementwise(const Node& n, const std::string& type, const std::string& x,
                                  const std::string& y) {
  const Shape of_x = n.graph().program().Desc(x).shape, of_y = n.graph().program().Desc(y).shape;
  bool swap =
      of_x.numel() < of_y.numel() || (of_x.numel() == of_y.numel() && of_x.rank() < of_y.rank());
  TD_ASSIGN_OR_RETURN(const auto batch_x, n.graph().program().BatchOf(x));
  TD_ASSIGN_OR_RETURN(const auto batch_y, n.graph().program().BatchOf(y));
  if (batch_x.has_value() != batch_y.has_value() && of_x.rank() == of_y.rank()) {
    swap = batch_y.has_value();
  }
  if (!swap) return Broadcast(n, type, x, y);
  if (type == "elementwise_sub") {
    TD_ASSIGN_OR_RETURN(const std::string turned, Broadcast(n, type, y, x));
    return n.Temp("scale", {{turned}}, {{"scale", -1.0}});
  }
  const bool commutes = type != "elementwise_div";
  return commutes ? Broadcast(n, type, y, x) : Broadcast(n, type, x, y);
}

StatusOr<std::string> Repeated(const Node& n, std::string x, int64_t axis, int64_t times) {
  TD_REQUIRE(times > 0 && axis >= 0 && axis < n.graph().program().Desc(x).shape.rank());
  // The powers of 2 in the number of repetitions.
  std::vector<std::vector<std::string>> parts(1);
  for (int64_t left = times; left > 0; left /= 2) {
    if (left % 2 != 0) parts[0].push_back(x);
    if (left == 1) break;
    TD_ASSIGN_OR_RETURN(x, n.Temp("concat", {{x, x}}, {{"axis", axis}}));
  }
  return parts[0].size() == 1 ? parts[0][0] : n.Temp("concat", parts, {{"axis", axis}});
}

StatusOr<std::string> Widened(const Node& n, std::string x, const Ints& sizes) {
  TD_ASSIGN_OR_RETURN(Ints from, n.graph().program().Sizes(x));
  if (from.size() < sizes.size()) {
    from.insert(from.begin(), sizes.size() - from.size(), 1);
    TD_ASSIGN_OR_RETURN(x, n.TempReshape(x, from));
  }
  for (size_t d = from.size(); d-- > 0;) {
    const size_t skip = from.size() - sizes.size();
    if (d < skip || from[d] != 1 || sizes[d - skip] == 1) continue;
    TD_REQUIRE(!IsBatch(sizes[d - skip]) && sizes[d - skip] > 0);
    TD_ASSIGN_OR_RETURN(x, Repeated(n, x, static_cast<int64_t>(d), sizes[d - skip]));
  }
  return x;
}

StatusOr<std::string> Truth(const Node& n, const std::string& x) {
  const bool fraction = n.graph().program().Desc(x).dtype == DType::kF32;
  std::string number = x;
  if (!fraction) {
    TD_ASSIGN_OR_RETURN(number, n.Temp("cast", {{x}}, {{"out_dtype", std::string("f32")}}));
  }
  TD_ASSIGN_OR_RETURN(const std::string negative, n.Temp("scale", {{number}}, {{"scale", -1.0}}));
  TD_ASSIGN_OR_RETURN(number, n.Temp("elementwise_max", {{number}, {negative}}));
  if (fraction) {
    TD_ASSIGN_OR_RETURN(number, n.Temp("scale", {{number}}, {{"scale", kLargestFloat}}));
  }
  return n.Temp("clip", {{number}}, {{"min", 0.0}, {"max", 1.0}});
}

std::span<const ReadRow> ElementReaders() { return kReadElementsRows; }

}  // namespace tandem::onnx
