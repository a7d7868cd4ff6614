// Reads nodes whose results can usually be computed while the model is read: constants, masks and
// conversions of types.
#include "trainer/onnx/op_readers_known.h"

#include <algorithm>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/op_readers.h"
#include "trainer/onnx/op_readers_elements.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t kElementsMax = int64_t{1} << 24;  // maximum number of elements of a result

StatusOr<Tensor> NewFloats(const Node& n, const Shape& shape) {
  if (shape.numel() > kElementsMax) {
    return Unimplemented(
        "the constant would have %d elements, which is more than this program supports [TD7015]",
        shape.numel());
  }
  return n.graph().known().NewTensor(DType::kF32, shape);
}

// Returns the shape that results from broadcasting two shapes. Broadcasting repeats dimensions of
// size 1.
StatusOr<Shape> Joint(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape joint = longer;
  for (int d = 0; d < shorter.rank(); ++d) {
    int64_t& size = joint[longer.rank() - shorter.rank() + d];
    if (size != shorter[d] && size != 1 && shorter[d] != 1) {
      return InvalidArgument("shapes %s and %s cannot be broadcast together [TD2108]", ToString(a),
                             ToString(b));
    }
    if (size == 1) size = shorter[d];
  }
  return joint;
}

float NumberAt(const Tensor& tensor, int64_t i) {
  TD_REQUIRE(i >= 0 && i < tensor.numel());
  const auto at = static_cast<size_t>(i);
  if (tensor.dtype() == DType::kF32) return tensor.span<float>()[at];
  if (tensor.dtype() == DType::kI64) return static_cast<float>(tensor.span<int64_t>()[at]);
  return static_cast<float>(tensor.span<int32_t>()[at]);
}

// Returns the index of the element of `from` that broadcasting to `shape` repeats at element `i`.
int64_t Source(const Shape& from, const Shape& shape, int64_t i) {
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

bool HasBatch(const Tensor& tensor) {
  if (tensor.dtype() != DType::kI64) return false;
  const auto numbers = tensor.span<int64_t>();
  return std::any_of(numbers.begin(), numbers.end(), IsBatch);
}

Status Constant(const Node& n) {
  if (const ::onnx::AttributeProto* value = n.attributes().Find("value");
      value != nullptr && value->has_t()) {
    return n.graph().known().AddConstant(n.out(), value->t(), /*trained=*/false);
  }
  if (const auto* value = n.attributes().Find("value_int")) return n.Know(Ints{value->i()});
  if (const auto* value = n.attributes().Find("value_ints")) {
    return n.Know(Ints(value->ints().begin(), value->ints().end()));
  }
  const auto *one = n.attributes().Find("value_float"), *list = n.attributes().Find("value_floats");
  if (one == nullptr && list == nullptr)
    return Unimplemented(
        "the constant contains strings or a sparse tensor, expected numbers [TD7015]");
  std::vector<float> numbers;
  if (one != nullptr) numbers.push_back(one->f());
  if (one == nullptr) numbers.assign(list->floats().begin(), list->floats().end());
  const Shape shape = one != nullptr ? Shape() : Shape({static_cast<int64_t>(numbers.size())});
  TD_ASSIGN_OR_RETURN(Tensor tensor, NewFloats(n, shape));
  std::copy(numbers.begin(), numbers.end(), tensor.span<float>().begin());
  n.Know(std::move(tensor));
  return OkStatus();
}

// Repeats `x` once for each sample, so that the result has the shape `sizes`. The result is a
// matrix product: a column of ones, one for each sample, times `x` as a row.
Status Repeat(const Node& n, const std::string& x, const Ints& sizes) {
  Ints rest;
  size_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (IsBatch(sizes[i])) {
      at = i;
    } else {
      rest.push_back(sizes[i]);
    }
  }
  if (sizes[at] != kBatch + 1)
    return Unimplemented(
        "the result would repeat the input several times for each sample, which is not supported "
        "[TD1214]");
  const int64_t width = n.graph().program().Desc(x).shape.numel();
  TD_ASSIGN_OR_RETURN(const std::string row, n.TempReshape(x, {1, width}));
  TD_ASSIGN_OR_RETURN(const std::string ones, n.graph().Ones());
  TD_ASSIGN_OR_RETURN(std::string out, n.Temp("fc", {{ones}, {row}, {}}));
  Ints first = {kBatch + 1}, order;
  first.insert(first.end(), rest.begin(), rest.end());
  if (at == 0) return n.Reshape(out, first);
  TD_ASSIGN_OR_RETURN(out, n.TempReshape(out, first));
  for (size_t i = 0; i < sizes.size(); ++i) {
    order.push_back(static_cast<int64_t>(i == at ? 0 : i < at ? i + 1 : i));
  }
  return n.Done("transpose", {{out}}, {{"axis", order}});
}

StatusOr<Shape> ShapeWithout(const Ints& sizes) {
  Ints dims;
  int batches = 0;
  for (const int64_t size : sizes) {
    batches += IsBatch(size) ? 1 : 0;
    dims.push_back(IsBatch(size) ? 1 : size);
  }
  if (batches > 1)
    return Unimplemented(
        "two dimensions of the result depend on the batch, expected at most one [TD1214]");
  return ParseShape(dims);
}

// Sets the result of the node to known numbers, broadcast to the sizes `sizes`.
Status KnownExpand(const Node& n, const Tensor& from, const Ints& sizes) {
  TD_ASSIGN_OR_RETURN(const Shape wanted, ShapeWithout(sizes));
  TD_ASSIGN_OR_RETURN(const Shape shape, Joint(from.shape(), wanted));
  TD_ASSIGN_OR_RETURN(Tensor tensor, NewFloats(n, shape));
  const auto to = tensor.span<float>();
  for (int64_t i = 0; i < shape.numel(); ++i) {
    to[static_cast<size_t>(i)] = NumberAt(from, Source(from.shape(), shape, i));
  }
  if (std::none_of(sizes.begin(), sizes.end(), IsBatch)) {
    n.Know(std::move(tensor));
    return OkStatus();
  }
  if (shape != wanted)
    return Unimplemented(
        "the constant has more dimensions than the requested shape, which is not supported with a "
        "batch [TD7015]");
  const std::string name = n.out() + ".one";
  n.graph().known().Add(name, std::move(tensor));
  TD_ASSIGN_OR_RETURN(const std::string x, n.graph().Var(name));
  return Repeat(n, x, sizes);
}

// Sets the result of the node to a list of `wanted` sizes. `list` must have `wanted` sizes, or one
// size, which is repeated.
Status KnownListExpand(const Node& n, Ints list, int64_t wanted) {
  if (list.size() == 1 && wanted >= 1 && wanted <= Shape::kRankMax) {
    list.resize(static_cast<size_t>(wanted), list[0]);
  }
  if (static_cast<int64_t>(list.size()) == wanted || wanted == 1) return n.Know(list);
  return InvalidArgument("a list of %d numbers cannot be expanded to %d numbers [TD2108]",
                         list.size(), wanted);
}

Status Expand(const Node& n) {
  TD_ASSIGN_OR_RETURN(const Ints wanted, n.ConstantSizes(1));
  if (!n.has(0)) return InvalidArgument("input 0 is missing [TD2108]");
  if (const auto list = n.Known(0); list && wanted.size() == 1) {
    return KnownListExpand(n, *list, wanted[0]);
  }
  const Tensor* known = n.graph().known().Untrained(n.value(0));
  if (known != nullptr && known->dtype() == DType::kF32) return KnownExpand(n, *known, wanted);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  bool repeats_batch = false, repeats = false;
  if (wanted.size() > sizes.size()) {
    sizes.insert(sizes.begin(), wanted.size() - sizes.size(), 1);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t& size = sizes[sizes.size() - wanted.size() + i];
    if (wanted[i] == 1 || wanted[i] == size) continue;
    if (size != 1)
      return InvalidArgument("dimension %d cannot be expanded, because its size is not 1 [TD2108]",
                             i);
    (IsBatch(wanted[i]) ? repeats_batch : repeats) = true;
    size = wanted[i];
  }
  if (repeats)
    return Unimplemented(
        "the node repeats computed numbers along a dimension other than the batch, which is not "
        "supported [TD7015]");
  return repeats_batch ? Repeat(n, x, sizes) : n.Reshape(x, sizes);
}

Status ConstantOfShape(const Node& n) {
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.ConstantSizes(0));
  const ::onnx::AttributeProto* value = n.attributes().Find("value");
  if (value != nullptr && value->has_t() && value->t().data_type() == ::onnx::TensorProto::INT64) {
    TD_RETURN_IF_ERROR(n.graph().known().AddConstant(n.out(), value->t(), /*trained=*/false));
    const Tensor number = *n.graph().known().Find(n.out());
    if (sizes.size() != 1 || number.numel() != 1 || sizes[0] < 0 || sizes[0] > Shape::kRankMax) {
      return Unimplemented("a constant of integers must be a short list [TD7015]");
    }
    return n.Know(Ints(static_cast<size_t>(sizes[0]), number.span<int64_t>()[0]));
  }
  TD_ASSIGN_OR_RETURN(Tensor number, NewFloats(n, {}));
  number.span<float>()[0] = 0;
  if (value != nullptr && value->has_t()) {
    TD_RETURN_IF_ERROR(n.graph().known().AddConstant(n.out(), value->t(), /*trained=*/false));
    number = *n.graph().known().Find(n.out());
  }
  if (number.numel() != 1)
    return InvalidArgument("attribute value has %d numbers, expected 1 [TD2108]", number.numel());
  return KnownExpand(n, number, sizes);
}

// Keeps the numbers in a triangle of the last two dimensions, and sets the other numbers to 0.
Status Trilu(const Node& n) {
  int64_t shift = 0;
  if (n.has(1)) {
    TD_ASSIGN_OR_RETURN(const Ints given, n.ConstantInts(1));
    if (given.size() != 1)
      return InvalidArgument("input k has %d numbers, expected 1 [TD2108]", given.size());
    shift = std::clamp<int64_t>(given[0], -kElementsMax, kElementsMax);
  }
  const bool upper = n.attributes().Int("upper", 1) != 0;
  if (!n.has(0)) return InvalidArgument("input 0 is missing [TD2108]");
  const Tensor* known = n.graph().known().Untrained(n.value(0));
  std::string x;
  if (known == nullptr) {
    TD_ASSIGN_OR_RETURN(x, n.in(0));
  }
  const Shape whole = known != nullptr ? known->shape() : n.graph().program().Desc(x).shape;
  if (whole.rank() < 2)
    return InvalidArgument("the input has %d dimensions, expected at least 2 [TD2108]",
                           whole.rank());
  const int64_t rows = whole[whole.rank() - 2], columns = whole[whole.rank() - 1];
  TD_ASSIGN_OR_RETURN(Tensor to, NewFloats(n, known != nullptr ? whole : Shape({rows, columns})));
  for (int64_t i = 0; i < to.numel(); ++i) {
    const int64_t column = i % columns, row = i / columns % rows;
    const bool kept = upper ? column >= row + shift : column <= row + shift;
    const float number = known != nullptr ? NumberAt(*known, i) : 1;
    to.span<float>()[static_cast<size_t>(i)] = kept ? number : 0;
  }
  if (known != nullptr) {
    n.Know(std::move(to));
    return OkStatus();
  }
  const std::string name = n.out() + ".triangle";
  n.graph().known().Add(name, std::move(to));
  TD_ASSIGN_OR_RETURN(const std::string triangle, n.graph().Var(name));
  TD_ASSIGN_OR_RETURN(const std::string out, Elementwise(n, "elementwise_mul", x, triangle));
  return n.Is(out);
}

Status KnownCast(const Node& n, const Tensor& from, int64_t to) {
  if (to != ::onnx::TensorProto::FLOAT && to != ::onnx::TensorProto::BOOL) {
    Ints numbers;
    if (from.numel() > Shape::kRankMax)
      return Unimplemented(
          "a cast of %d constants to integers is not supported, expected at most %d [TD7015]",
          from.numel(), Shape::kRankMax);
    for (int64_t i = 0; i < from.numel(); ++i) {
      const float number = NumberAt(from, i);
      if (!(std::abs(number) < 1e9f))
        return Unimplemented("the constant %g cannot be converted to an integer [TD7015]", number);
      numbers.push_back(static_cast<int64_t>(number));
    }
    return n.Know(numbers);
  }
  TD_ASSIGN_OR_RETURN(Tensor tensor, NewFloats(n, from.shape()));
  for (int64_t i = 0; i < from.numel(); ++i) {
    const float number = NumberAt(from, i);
    tensor.span<float>()[static_cast<size_t>(i)] =
        to == ::onnx::TensorProto::FLOAT ? number : static_cast<float>(number != 0);
  }
  n.Know(std::move(tensor));
  return OkStatus();
}

Status CastTo(const Node& n, int64_t to) {
  const bool whole = to == ::onnx::TensorProto::INT64 || to == ::onnx::TensorProto::INT32;
  if (!whole && to != ::onnx::TensorProto::FLOAT && to != ::onnx::TensorProto::BOOL) {
    return Unimplemented("a cast to ONNX element type %d is not supported [TD7015]", to);
  }
  const auto list = n.Known(0);
  if (list && whole) return n.Know(*list);
  const Tensor* known = n.has(0) ? n.graph().known().Untrained(n.value(0)) : nullptr;
  if (known != nullptr && !HasBatch(*known)) return KnownCast(n, *known, to);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const bool floats = n.graph().program().Desc(x).dtype == DType::kF32;
  if (to == ::onnx::TensorProto::BOOL)
    return Unimplemented("a cast to BOOL is supported only for constants [TD7015]");
  if (to == ::onnx::TensorProto::FLOAT && floats) return n.Is(x);
  const char* name = to == ::onnx::TensorProto::FLOAT   ? "f32"
                     : to == ::onnx::TensorProto::INT64 ? "i64"
                                                        : "i32";
  return n.Done("cast", {{x}}, {{"out_dtype", std::string(name)}});
}

Status Cast(const Node& n) {
  n.attributes().Int("saturate", 1);  // read but ignored: applies only to 8-bit types
  return CastTo(n, n.attributes().Int("to", 0));
}

Status CastLike(const Node& n) {
  n.attributes().Int("saturate", 1);
  if (!n.has(1)) return InvalidArgument("input 1 is missing [TD2108]");
  const Tensor* like = n.graph().known().Find(n.value(1));
  DType dtype = like != nullptr ? like->dtype() : DType::kF32;
  if (like == nullptr) {
    TD_ASSIGN_OR_RETURN(const std::string var, n.in(1));
    dtype = n.graph().program().Desc(var).dtype;
  }
  return CastTo(n, dtype == DType::kF32   ? ::onnx::TensorProto::FLOAT
                   : dtype == DType::kI64 ? ::onnx::TensorProto::INT64
                                          : ::onnx::TensorProto::INT32);
}

constexpr ReadRow kReadKnownRows[] = {
    {"Cast", Cast},         {"CastLike", CastLike},
    {"Constant", Constant}, {"ConstantOfShape", ConstantOfShape},
    {"Expand", Expand},     {"Trilu", Trilu},
};

}  // namespace

StatusOr<bool> Fold(const Node& n, float (*fn)(std::span<const float>)) {
  std::vector<const Tensor*> inputs;
  Shape shape;
  for (size_t i = 0; i < n.inputs(); ++i) {
    const Tensor* known = n.has(i) ? n.graph().known().Untrained(n.value(i)) : nullptr;
    if (known == nullptr || HasBatch(*known)) return false;
    inputs.push_back(known);
    TD_ASSIGN_OR_RETURN(shape, Joint(shape, known->shape()));
  }
  if (inputs.empty()) return false;
  TD_ASSIGN_OR_RETURN(Tensor tensor, NewFloats(n, shape));
  std::vector<float> numbers(inputs.size());
  for (int64_t i = 0; i < shape.numel(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      numbers[k] = NumberAt(*inputs[k], Source(inputs[k]->shape(), shape, i));
    }
    tensor.span<float>()[static_cast<size_t>(i)] = fn(numbers);
  }
  n.Know(std::move(tensor));
  return true;
}

std::span<const ReadRow> KnownReaders() { return kReadKnownRows; }

}  // namespace tandem::onnx
