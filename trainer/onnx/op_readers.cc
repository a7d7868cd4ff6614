#include "trainer/onnx/op_readers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/elementwise/dropout.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/evaluate.h"
#include "trainer/onnx/op_readers_elements.h"
#include "trainer/onnx/sizes.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

constexpr int64_t kCumSumMax = 4096;  // elements of a CumSum

template <const char* kType>
Status Plain(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done(kType, {{x}});
}
constexpr char kRelu[] = "relu", kSigmoid[] = "sigmoid", kTanh[] = "tanh";

Status Identity(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Is(x);
}

Status Pow(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const float* exponent = n.Scalar(1);
  const auto whole = n.Known(1);
  const bool one = whole && whole->size() == 1;
  if (exponent == nullptr && !one)
    return Unimplemented(
        "the exponent of the power is computed by a node, expected a constant number [TD7015]");
  const double power = exponent != nullptr ? *exponent : static_cast<double>((*whole)[0]);
  if (power == 2) return n.Done("elementwise_mul", {{x}, {x}});
  if (power != 3)
    return Unimplemented("the exponent of the power is %g, expected 2 or 3 [TD7015]", power);
  TD_ASSIGN_OR_RETURN(const std::string square, n.Temp("elementwise_mul", {{x}, {x}}));
  return n.Done("elementwise_mul", {{square}, {x}});
}

// Rejects an Erf node that is not part of a GELU. FusePatterns has replaced all other Erf nodes.
Status Erf(const Node&) {
  return Unimplemented("Erf is supported only in a GELU, x * 0.5 * (1 + Erf(x / sqrt 2)) [TD7015]");
}
Status Sqrt(const Node&) {
  return Unimplemented(
      "Sqrt is supported only in a normalisation over one dimension, c / Sqrt(ReduceMean(c * c) + "
      "epsilon) [TD7015]");
}

Status Sum(const Node& n) {
  Slots inputs(1);
  for (size_t i = 0; i < n.inputs(); ++i) {
    TD_ASSIGN_OR_RETURN(inputs[0].emplace_back(), n.in(i));
  }
  return n.Done("sum", std::move(inputs));
}

Status Gemm(const Node& n) {
  if (n.attributes().Float("alpha", 1) != 1 || n.attributes().Float("beta", 1) != 1 ||
      n.attributes().Int("transA", 0) != 0) {
    return Unimplemented("Gemm is supported only with alpha = 1, beta = 1 and transA = 0 [TD7015]");
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  if (!n.has(1)) return InvalidArgument("input 1 is missing [TD2108]");
  TD_ASSIGN_OR_RETURN(const std::string w,
                      n.graph().Matrix(n.value(1), n.attributes().Int("transB", 0) != 0));
  Slots inputs = {{x}, {w}, {}};
  if (n.has(2)) {
    TD_ASSIGN_OR_RETURN(inputs[2].emplace_back(), n.in(2));
  }
  return n.Done("fc", std::move(inputs));
}

// Repeats matrices of X or Y where the other input has more of them, as in an attention with one
// key for all heads.
Status WidenMatrices(const Node& n, std::string* x, std::string* y) {
  std::string* const inputs[] = {x, y};
  Ints sizes[2];
  for (const size_t i : {size_t{0}, size_t{1}}) {
    TD_ASSIGN_OR_RETURN(sizes[i], n.graph().program().Sizes(*inputs[i]));
  }
  if (sizes[0].size() != sizes[1].size() || sizes[0].size() < 3) return OkStatus();
  Ints wide[2] = {sizes[0], sizes[1]};
  for (size_t d = 0; d + 2 < sizes[0].size(); ++d) {
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const int64_t other = sizes[1 - i][d];
      if (sizes[i][d] == 1 && other > 1 && !IsBatch(other)) wide[i][d] = other;
    }
  }
  for (const size_t i : {size_t{0}, size_t{1}}) {
    TD_ASSIGN_OR_RETURN(*inputs[i], Widened(n, *inputs[i], wide[i]));
  }
  return OkStatus();
}

Status MatMul(const Node& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(std::string y, n.in(1));
  TD_RETURN_IF_ERROR(WidenMatrices(n, &x, &y));
  const Shape of_x = n.graph().program().Desc(x).shape, of_y = n.graph().program().Desc(y).shape;
  if (of_y.rank() != 2 || of_x.rank() < 2) return n.Done("matmul", {{x}, {y}});
  if (of_x.rank() == 2) return n.Done("fc", {{x}, {y}, {}});
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  TD_ASSIGN_OR_RETURN(const Ints rows,
                      FillSizes(n.graph().program(), x, {-1, of_x[of_x.rank() - 1]}));
  TD_ASSIGN_OR_RETURN(x, n.TempReshape(x, rows));
  TD_ASSIGN_OR_RETURN(x, n.Temp("fc", {{x}, {y}, {}}));
  sizes.back() = of_y[1];
  return n.Reshape(x, sizes);
}

// A matrix that is known, or that an operator reads in another layout, is not transposed here but
// by its readers.
Status Transpose(const Node& n) {
  const KnownValue* matrix = n.has(0) ? n.graph().known().Get(n.value(0)) : nullptr;
  if (matrix != nullptr && n.graph().known().Get(n.out()) == nullptr && matrix->batch < 0 &&
      matrix->tensor.shape().rank() == 2 && matrix->tensor.dtype() == DType::kF32 &&
      n.attributes().Ints("perm", {1, 0}) == Ints{1, 0}) {
    n.graph().AddTransposed(n.out(), n.value(0));
    return OkStatus();
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  Ints reversed;
  for (int axis = n.graph().program().Desc(x).shape.rank(); axis-- > 0;) reversed.push_back(axis);
  return n.Done("transpose", {{x}}, {{"axis", n.attributes().Ints("perm", reversed)}});
}

Status Softmax(const Node& n) {
  TD_RETURN_IF_ERROR(CheckSoftmax(n));
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("softmax", {{x}});
}

Status Split(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  Ints sections = n.attributes().Ints("split", {});
  if (n.has(1)) {
    TD_ASSIGN_OR_RETURN(sections, n.ConstantInts(1));
  }
  const auto parts = static_cast<int64_t>(n.outputs());
  TD_RETURN_IF_ERROR(n.attributes().Only("num_outputs", parts));
  ops::AttrMap attrs = {{"axis", n.attributes().Int("axis", 0)},
                        {"num", sections.empty() ? parts : 0}};
  attrs["sections"] = sections;
  std::vector<std::string> outs;
  for (size_t i = 0; i < n.outputs(); ++i) {
    outs.push_back(n.graph().program().NewVar(n.out(i)));
    n.graph().Bind(n.out(i), outs.back());
  }
  return n.graph().program().Append(
      ops::Op{.type = "split", .inputs = {{x}}, .outputs = {outs}, .attrs = std::move(attrs)});
}

Status Dropout(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  if (n.outputs() > 1)
    return Unimplemented("the second output, the mask, is not supported [TD7015]");
  n.attributes().Int("seed", 0);
  double ratio = n.attributes().Float("ratio", 0.5);
  if (n.has(1)) {
    const float* given = n.Scalar(1);
    if (given == nullptr)
      return Unimplemented(
          "the dropout ratio is computed by a node, but must be a constant [TD7015]");
    ratio = *given;
  }
  if (ratio == 0) return Identity(n);
  if (n.graph().program().forward().FindVar(ops::kDropoutPosition) == nullptr) {
    TD_RETURN_IF_ERROR(n.graph().program().AddVar({.name = ops::kDropoutPosition,
                                                   .kind = graph::VarKind::kState,
                                                   .desc = {DType::kI64, {4}},
                                                   .saved = false}));
  }
  return n.Done("dropout", {{x}, {ops::kDropoutPosition}},
                {{"dropout_prob", ratio}, {"name", n.graph().program().NewVar(n.out())}});
}

template <const char* kType>
Status Reduce(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(n.attributes().Only("noop_with_empty_axes", 0));
  const bool sum = std::string_view(kType) == "reduce_sum";
  TD_ASSIGN_OR_RETURN(const Ints axes,
                      n.Axes(sum ? 12 : 17, n.graph().program().Desc(x).shape.rank()));
  return n.Done(kType, {{x}},
                {{"dim", axes}, {"keep_dim", n.attributes().Int("keepdims", 1) != 0}});
}
constexpr char kReduceSum[] = "reduce_sum", kReduceMean[] = "reduce_mean",
               kReduceMax[] = "reduce_max";

Status Gelu(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("gelu", {{x}},
                {{"approximate", n.attributes().Text("approximate", "none") == "tanh"}});
}

// Returns whether nodes of type `type` are control flow, or have results whose sizes depend on
// computed numbers.
bool IsControl(std::string_view type) {
  static constexpr std::string_view kTypes[] = {"If", "Loop", "NonZero", "Range", "Scan"};
  return std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes) ||
         type.starts_with("Sequence");
}

// Sums up along the last dimension, as a product with a triangle of ones.
Status CumSum(const Node& n) {
  TD_RETURN_IF_ERROR(n.attributes().Only("exclusive", 0));
  TD_RETURN_IF_ERROR(n.attributes().Only("reverse", 0));
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const Ints given, n.ConstantInts(1));
  const Shape shape = n.graph().program().Desc(x).shape;
  TD_ASSIGN_OR_RETURN(Ints sizes, n.graph().program().Sizes(x));
  if (given.size() != 1) return InvalidArgument("input 1 must be one number [TD2108]");
  TD_ASSIGN_OR_RETURN(const int64_t axis, NonNegativeAxis(given[0], shape.rank()));
  const int64_t size = sizes[static_cast<size_t>(axis)];
  if (axis != shape.rank() - 1 || axis == 0 || IsBatch(size) || size > kCumSumMax) {
    return Unimplemented(
        "CumSum is supported only along the last dimension, of at most %d elements, that is not "
        "the batch [TD7015]",
        kCumSumMax);
  }
  if (n.graph().program().Desc(x).dtype != DType::kF32) {
    TD_ASSIGN_OR_RETURN(x, n.Temp("cast", {{x}}, {{"out_dtype", std::string("f32")}}));
  }
  TD_ASSIGN_OR_RETURN(Tensor ones, n.graph().known().NewTensor(DType::kF32, {size, size}));
  for (int64_t i = 0; i < size * size; ++i) {
    ones.span<float>()[static_cast<size_t>(i)] = i / size <= i % size ? 1 : 0;
  }
  n.graph().known().Add(n.out() + ".ones", std::move(ones));
  TD_ASSIGN_OR_RETURN(const std::string triangle, n.graph().Var(n.out() + ".ones"));
  TD_ASSIGN_OR_RETURN(const Ints rows, FillSizes(n.graph().program(), x, {-1, size}));
  TD_ASSIGN_OR_RETURN(x, n.TempReshape(x, rows));
  TD_ASSIGN_OR_RETURN(x, n.Temp("fc", {{x}, {triangle}, {}}));
  return n.Reshape(x, sizes);
}

Status Neg(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("scale", {{x}}, {{"scale", -1.0}});
}

constexpr ReadRow kReadRows[] = {
    {"CumSum", CumSum},
    {"Dropout", Dropout},
    {"Erf", Erf},
    {"Gelu", Gelu},
    {"Gemm", Gemm},
    {"Identity", Identity},
    {"MatMul", MatMul},
    {"Neg", Neg},
    {"Pow", Pow},
    {"ReduceMax", Reduce<kReduceMax>},
    {"ReduceMean", Reduce<kReduceMean>},
    {"ReduceSum", Reduce<kReduceSum>},
    {"Relu", Plain<kRelu>},
    {"Sigmoid", Plain<kSigmoid>},
    {"Softmax", Softmax},
    {"Split", Split},
    {"Sqrt", Sqrt},
    {"Sum", Sum},
    {"Tanh", Plain<kTanh>},
    {"Transpose", Transpose},
};

}  // namespace

Status CheckLastAxis(const Node& n, const std::string& x, int64_t fallback) {
  const int rank = n.graph().program().Desc(x).shape.rank();
  TD_ASSIGN_OR_RETURN(const int64_t axis,
                      NonNegativeAxis(n.attributes().Int("axis", fallback), rank));
  return axis == rank - 1 ? OkStatus()
                          : Unimplemented(
                                "axis = %d is not supported for an input with %d dimensions, "
                                "expected the last dimension [TD7015]",
                                axis, rank);
}

Status CheckSoftmax(const Node& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return CheckLastAxis(n, x, n.opset() < 13 ? 1 : -1);
}

Status ConvertNode(const std::string& type, const Node& node) {
  TD_ASSIGN_OR_RETURN(const bool known, Evaluate(type, node));
  if (known) return OkStatus();
  for (const std::span<const ReadRow> rows :
       {std::span<const ReadRow>(kReadRows), ActivationReaders(), ElementReaders(), GatherReaders(),
        ImageReaders(), KnownReaders(), NormReaders(), PadReaders(), RecurrentReaders(),
        ResizeReaders(), ShapeReaders()}) {
    for (const ReadRow& row : rows) {
      if (type == row.type) return row.read(node);
    }
  }
  if (IsControl(type)) {
    return Unimplemented(
        "the node makes the computation depend on data, which is not supported [TD7014]; hint: "
        "replace the loop by a Python loop of constant length, and nn.EmbeddingBag by nn.Embedding "
        "and a mean or sum");
  }
  return Unimplemented(
      "operator %s is not supported [TD1215]; hint: replace the operator by operators that "
      "docs/guides/export-and-import.md lists",
      type);
}

}  // namespace tandem::onnx
