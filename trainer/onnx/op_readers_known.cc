// Reads nodes whose results can usually be computed while the model is read: constants, masks and
// conversions of types.
#include "trainer/onnx/op_readers_known.h"

#include <algorithm>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/evaluate.h"
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

}  // namespace

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

namespace {

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
    to[static_cast<size_t>(i)] = NumberAt(from, BroadcastSource(from.shape(), shape, i));
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

Status Expand(const Node& n) {
  TD_ASSIGN_OR_RETURN(const Ints wanted, n.ConstantSizes(1));
  if (!n.has(0)) return InvalidArgument("input 0 is missing [TD2108]");
  const Tensor* known = n.graph().known().Untrained(n.value(0));
  if (known != nullptr && known->dtype() == DType::kF32) return KnownExpand(n, *known, wanted);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  bool repeats_batch = false;
  if (wanted.size() > sizes.size()) {
    sizes.insert(sizes.begin(), wanted.size() - sizes.size(), 1);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t& size = sizes[sizes.size() - wanted.size() + i];
    if (wanted[i] == 1 || wanted[i] == size) continue;
    if (wanted[i] < 1 && !IsBatch(wanted[i]))
      return InvalidArgument("size %d of the shape is %d, expected a positive number [TD2108]", i,
                             wanted[i]);
    if (size != 1)
      return InvalidArgument("dimension %d cannot be expanded, because its size is not 1 [TD2108]",
                             i);
    repeats_batch = repeats_batch || IsBatch(wanted[i]);
    size = wanted[i];
  }
  if (repeats_batch && std::count_if(sizes.begin(), sizes.end(), IsBatch) > 1)
    return Unimplemented(
        "two dimensions of the result depend on the batch, expected at most one [TD1214]");
  Ints inner = sizes;
  if (repeats_batch) std::replace_if(inner.begin(), inner.end(), IsBatch, 1);
  TD_ASSIGN_OR_RETURN(const std::string wide, Widened(n, x, inner));
  return repeats_batch ? Repeat(n, wide, sizes) : n.Is(wide);
}

Status ConstantOfShape(const Node& n) {
  TD_ASSIGN_OR_RETURN(const Ints sizes, n.ConstantSizes(0));
  const ::onnx::AttributeProto* value = n.attributes().Find("value");
  TD_ASSIGN_OR_RETURN(Tensor number, NewFloats(n, {}));
  number.span<float>()[0] = 0;
  if (value != nullptr && value->has_t()) {
    TD_RETURN_IF_ERROR(n.graph().known().AddConstant(n.out(), value->t(), /*trained=*/false));
    number = *n.graph().known().Find(n.out());
  }
  if (number.dtype() != DType::kF32)
    return Unimplemented("a constant of integers must have at most %d elements [TD7015]",
                         kEvaluatedMax);
  if (number.numel() != 1)
    return InvalidArgument("attribute value has %d numbers, expected 1 [TD2108]", number.numel());
  return KnownExpand(n, number, sizes);
}

// Reads Trilu. The last two dimensions of the input are matrices. The result keeps the upper or the
// lower triangle of each matrix; all other elements are 0.
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

Status CastTo(const Node& n, int64_t to) {
  if (to == ::onnx::TensorProto::DOUBLE) {
    return Unimplemented(
        "a cast to DOUBLE is supported only for known numbers, because programs compute in f32 "
        "[TD7015]; hint: compute this part of the model in float32");
  }
  const bool whole = to == ::onnx::TensorProto::INT64 || to == ::onnx::TensorProto::INT32;
  if (!whole && to != ::onnx::TensorProto::FLOAT && to != ::onnx::TensorProto::BOOL) {
    return Unimplemented("a cast to ONNX element type %d is not supported [TD7015]", to);
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const bool floats = n.graph().program().Desc(x).dtype == DType::kF32;
  if (to == ::onnx::TensorProto::BOOL) {
    TD_ASSIGN_OR_RETURN(const std::string truth, Truth(n, x));
    return n.Is(truth);
  }
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
  if (const KnownValue* known = n.graph().known().Get(n.value(1));
      known != nullptr && !known->wide.empty()) {
    return CastTo(n, ::onnx::TensorProto::DOUBLE);
  }
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

std::span<const ReadRow> KnownReaders() { return kReadKnownRows; }

}  // namespace tandem::onnx
