#include "trainer/onnx/op_readers.h"

#include <algorithm>
#include <limits>

#include "kernels/ops/dropout.h"
#include "onnx/onnx.pb.h"

namespace tandem {
namespace {

using Ints = std::vector<int64_t>;
using Slots = std::vector<std::vector<std::string>>;

template <const char* kType>
Status Plain(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done(kType, {{x}});
}
constexpr char kRelu[] = "relu", kSigmoid[] = "sigmoid", kTanh[] = "tanh";

Status Identity(const OnnxNode& n) {
  if (const auto known = n.Known(0)) return n.Know(*known);
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  n.graph().Bind(n.out(), x);
  return OkStatus();
}

Status Constant(const OnnxNode& n) {
  const onnx::AttributeProto* value = n.Attr("value");
  if (value == nullptr || !value->has_t()) return Unimplemented("numbers other than \"value\"");
  return n.graph().AddConstant(n.out(), value->t(), /*trained=*/false);
}

// Where Y, without its dimensions of size 1 at either end, meets X; the last dimensions of both
// meet. -1: it does not.
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

Status Broadcast(const OnnxNode& n, const std::string& type, const std::string& x, std::string y) {
  const Shape of_x = n.graph().Desc(x).shape, of_y = n.graph().Desc(y).shape;
  Ints middle;
  const int axis = of_x == of_y ? 0 : MeetsAt(of_x, of_y, &middle);
  if (axis < 0) {
    return Unimplemented("%s and %s: one must be a run of the other's dimensions", ToString(of_x),
                         ToString(of_y));
  }
  if (of_x == of_y) return n.Done(type, {{x}, {y}});
  if (static_cast<int>(middle.size()) != of_y.rank()) {
    TD_RETURN_IF_ERROR(n.graph().CheckSizes(y));
    if (n.graph().DependsOnBatch(y, 0)) middle[0] = -1;
    TD_ASSIGN_OR_RETURN(y, n.Temp("reshape", {{y}}, {{"shape", middle}}));
  }
  return n.Done(type, {{x}, {y}}, {{"axis", int64_t{axis}}});
}

// X op a number that is known, or the other way round, as scale X + bias. False: it is none.
bool AsScale(const OnnxNode& n, const std::string& type, size_t* x, double* scale, double* bias) {
  const float* right = n.Scalar(1);
  const float* left = n.Scalar(0);
  if (right == nullptr && (left == nullptr || type == "elementwise_div")) return false;
  *x = right != nullptr ? 0 : 1;
  const double c = right != nullptr ? *right : *left;
  *scale = type == "elementwise_mul" ? c : type == "elementwise_div" ? 1 / c : 1;
  *bias = type == "elementwise_add" ? c : type == "elementwise_sub" ? -c : 0;
  if (type == "elementwise_sub" && *x == 1) {
    *scale = -1;
    *bias = c;
  }
  return type != "elementwise_max";
}

template <const char* kType>
Status Elementwise(const OnnxNode& n) {
  if (n.inputs() != 2) return Unimplemented("%d inputs instead of 2", n.inputs());
  size_t at = 0;
  double scale = 1, bias = 0;
  if (AsScale(n, kType, &at, &scale, &bias)) {
    TD_ASSIGN_OR_RETURN(const std::string x, n.in(at));
    return n.Done("scale", {{x}}, {{"scale", scale}, {"bias", bias}});
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string y, n.in(1));
  const std::string type = kType;
  const bool commutes = type != "elementwise_sub" && type != "elementwise_div";
  const bool swap = n.graph().Desc(x).shape.numel() < n.graph().Desc(y).shape.numel();
  return commutes && swap ? Broadcast(n, type, y, x) : Broadcast(n, type, x, y);
}
constexpr char kAdd[] = "elementwise_add", kSub[] = "elementwise_sub", kMul[] = "elementwise_mul",
               kDiv[] = "elementwise_div", kMax[] = "elementwise_max";

Status Pow(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const float* exponent = n.Scalar(1);
  const auto whole = n.Known(1);
  const bool one = whole && whole->size() == 1;
  if (exponent == nullptr && !one) return Unimplemented("an exponent that is no known number");
  const double power = exponent != nullptr ? *exponent : static_cast<double>((*whole)[0]);
  if (power == 2) return n.Done("elementwise_mul", {{x}, {x}});
  if (power != 3) return Unimplemented("exponent %g; squares and cubes alone", power);
  TD_ASSIGN_OR_RETURN(const std::string square, n.Temp("elementwise_mul", {{x}, {x}}));
  return n.Done("elementwise_mul", {{square}, {x}});
}

// What FusePatterns has left.
Status Erf(const OnnxNode&) {
  return Unimplemented("other than in a gelu, x * 0.5 * (1 + Erf(x / sqrt 2))");
}
Status Sqrt(const OnnxNode&) {
  return Unimplemented(
      "other than in a layer normalisation over one dimension, c / Sqrt(ReduceMean(c * c) + "
      "epsilon) with c = x - ReduceMean(x)");
}

Status Sum(const OnnxNode& n) {
  Slots inputs(1);
  for (size_t i = 0; i < n.inputs(); ++i) {
    TD_ASSIGN_OR_RETURN(inputs[0].emplace_back(), n.in(i));
  }
  return n.Done("sum", std::move(inputs));
}

Status Gemm(const OnnxNode& n) {
  if (n.Float("alpha", 1) != 1 || n.Float("beta", 1) != 1 || n.Int("transA", 0) != 0) {
    return Unimplemented("alpha, beta or transA other than 1, 1, 0");
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  if (!n.has(1)) return InvalidArgument("input 1 is missing");
  TD_ASSIGN_OR_RETURN(const std::string w, n.graph().Matrix(n.value(1), n.Int("transB", 0) != 0));
  Slots inputs = {{x}, {w}, {}};
  if (n.has(2)) {
    TD_ASSIGN_OR_RETURN(inputs[2].emplace_back(), n.in(2));
  }
  return n.Done("fc", std::move(inputs));
}

Status MatMul(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string y, n.in(1));
  const Shape of_x = n.graph().Desc(x).shape, of_y = n.graph().Desc(y).shape;
  if (of_y.rank() != 2 || of_x.rank() < 2) return n.Done("matmul", {{x}, {y}});
  if (of_x.rank() == 2) return n.Done("fc", {{x}, {y}, {}});
  TD_RETURN_IF_ERROR(n.graph().CheckSizes(x));
  TD_ASSIGN_OR_RETURN(x, n.Temp("reshape", {{x}}, {{"shape", Ints{-1, of_x[of_x.rank() - 1]}}}));
  TD_ASSIGN_OR_RETURN(x, n.Temp("fc", {{x}, {y}, {}}));
  Ints dims(of_x.dims().begin(), of_x.dims().end());
  dims.front() = -1;
  dims.back() = of_y[1];
  return n.Done("reshape", {{x}}, {{"shape", dims}});
}

Status Transpose(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  Ints reversed;
  for (int axis = n.graph().Desc(x).shape.rank(); axis-- > 0;) reversed.push_back(axis);
  return n.Done("transpose", {{x}}, {{"axis", n.Ints("perm", reversed)}});
}

// The attribute "axis" names the last dimension of `x`.
Status CheckLastAxis(const OnnxNode& n, const std::string& x, int64_t fallback) {
  const int rank = n.graph().Desc(x).shape.rank();
  TD_ASSIGN_OR_RETURN(const int64_t axis, n.Axis(n.Int("axis", fallback), rank));
  return axis == rank - 1 ? OkStatus()
                          : Unimplemented("axis = %d of %d: the last one alone", axis, rank);
}

Status Softmax(const OnnxNode& n) {
  TD_RETURN_IF_ERROR(CheckOnnxSoftmax(n));
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("softmax", {{x}});
}

Status Split(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  Ints sections = n.Ints("split", {});
  if (n.has(1)) {
    TD_ASSIGN_OR_RETURN(sections, n.ConstantInts(1));
  }
  const auto parts = static_cast<int64_t>(n.outputs());
  TD_RETURN_IF_ERROR(n.Only("num_outputs", parts));
  AttrMap attrs = {{"axis", n.Int("axis", 0)}, {"num", sections.empty() ? parts : 0}};
  attrs["sections"] = sections;
  std::vector<std::string> outs;
  for (size_t i = 0; i < n.outputs(); ++i) {
    outs.push_back(n.graph().NewVar(n.out(i)));
    n.graph().Bind(n.out(i), outs.back());
  }
  return n.graph().Append(
      Op{.type = "split", .inputs = {{x}}, .outputs = {outs}, .attrs = std::move(attrs)});
}

Status Slice(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  Ints starts = n.Ints("starts", {}), ends = n.Ints("ends", {}), axes = n.Ints("axes", {});
  if (n.opset() >= 10) {
    TD_ASSIGN_OR_RETURN(starts, n.ConstantInts(1));
    TD_ASSIGN_OR_RETURN(ends, n.ConstantInts(2));
    if (n.has(3)) {
      TD_ASSIGN_OR_RETURN(axes, n.ConstantInts(3));
    }
    if (n.has(4)) {
      TD_ASSIGN_OR_RETURN(const Ints steps, n.ConstantInts(4));
      const bool ones = std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 1; });
      if (!ones) return Unimplemented("steps other than 1");
    }
  }
  for (size_t i = 0; axes.size() < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const int rank = n.graph().Desc(x).shape.rank();
  for (int64_t& axis : axes) {
    TD_ASSIGN_OR_RETURN(axis, n.Axis(axis, rank));
    if (axis == 0) return Unimplemented("a window of the batch");
  }
  return n.Done("slice", {{x}}, {{"axes", axes}, {"starts", starts}, {"ends", ends}});
}

Status Cast(const OnnxNode& n) {
  const int64_t to = n.Int("to", 0);
  if (const auto known = n.Known(0); known && to != onnx::TensorProto::FLOAT) {
    return n.Know(*known);
  }
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const char* name = to == onnx::TensorProto::FLOAT   ? "f32"
                     : to == onnx::TensorProto::INT64 ? "i64"
                     : to == onnx::TensorProto::INT32 ? "i32"
                                                      : nullptr;
  if (name == nullptr) return Unimplemented("to = %d", to);
  return n.Done("cast", {{x}}, {{"out_dtype", std::string(name)}});
}

Status Clip(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  constexpr double kLargest = std::numeric_limits<float>::max();
  double limits[] = {n.Float("min", -kLargest), n.Float("max", kLargest)};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!n.has(i + 1)) continue;
    const float* limit = n.Scalar(i + 1);
    if (limit == nullptr) return Unimplemented("a limit that is computed");
    limits[i] = *limit;
  }
  return n.Done("clip", {{x}}, {{"min", limits[0]}, {"max", limits[1]}});
}

Status Dropout(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  if (n.outputs() > 1) return Unimplemented("a mask as a second output");
  n.Int("seed", 0);
  double ratio = n.Float("ratio", 0.5);
  if (n.has(1)) {
    const float* given = n.Scalar(1);
    if (given == nullptr) return Unimplemented("a ratio that is computed");
    ratio = *given;
  }
  if (ratio == 0) return Identity(n);
  if (n.graph().program().FindVar(kDropoutPosition) == nullptr) {
    TD_RETURN_IF_ERROR(n.graph().AddVar({.name = kDropoutPosition,
                                         .kind = VarKind::kState,
                                         .desc = {DType::kI64, {4}},
                                         .saved = false}));
  }
  return n.Done("dropout", {{x}, {kDropoutPosition}},
                {{"dropout_prob", ratio}, {"name", n.graph().NewVar(n.out())}});
}

// Elements of a list that is known.
Status KnownElements(const OnnxNode& n, const Ints& list, const Ints& at) {
  TD_RETURN_IF_ERROR(n.Only("axis", 0));
  Ints elements;
  for (const int64_t i : at) {
    TD_ASSIGN_OR_RETURN(const int64_t index, n.Axis(i, static_cast<int>(list.size())));
    elements.push_back(list[static_cast<size_t>(index)]);
  }
  return n.Know(elements);
}

Status Gather(const OnnxNode& n) {
  if (!n.has(0) || !n.has(1)) return InvalidArgument("it needs two inputs");
  const auto list = n.Known(0), at = n.Known(1);
  if (list && at) return KnownElements(n, *list, *at);
  const Tensor* table = n.graph().Constant(n.value(0));
  const bool lookup = table != nullptr && table->shape().rank() == 2 && n.Int("axis", 0) == 0 &&
                      n.graph().Constant(n.value(1)) == nullptr;
  if (!lookup) return Unimplemented("other than rows of a known table by ids that are data");
  TD_ASSIGN_OR_RETURN(const std::string w, n.in(0));
  TD_ASSIGN_OR_RETURN(std::string ids, n.in(1));
  if (n.graph().Desc(ids).dtype != DType::kI64) {
    TD_ASSIGN_OR_RETURN(ids, n.Temp("cast", {{ids}}, {{"out_dtype", std::string("i64")}}));
  }
  return n.Done("lookup_table", {{ids}, {w}}, {{"squeeze_last", false}});
}

template <const char* kType>
Status Reduce(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(n.Only("noop_with_empty_axes", 0));
  const bool sum = std::string_view(kType) == "reduce_sum";
  TD_ASSIGN_OR_RETURN(const Ints axes, n.Axes(sum ? 12 : 17, n.graph().Desc(x).shape.rank()));
  return n.Done(kType, {{x}}, {{"dim", axes}, {"keep_dim", n.Int("keepdims", 1) != 0}});
}
constexpr char kReduceSum[] = "reduce_sum", kReduceMean[] = "reduce_mean",
               kReduceMax[] = "reduce_max";

Status LayerNorm(const OnnxNode& n) {
  if (n.outputs() > 1) return Unimplemented("statistics as further outputs");
  TD_RETURN_IF_ERROR(n.Only("stash_type", 1));
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_RETURN_IF_ERROR(CheckLastAxis(n, x, -1));
  const auto axis = int64_t{n.graph().Desc(x).shape.rank() - 1};
  Slots inputs = {{x}, {}, {}};
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!n.has(i)) continue;
    TD_ASSIGN_OR_RETURN(inputs[i].emplace_back(), n.in(i));
  }
  return n.Done("layer_norm", std::move(inputs),
                {{"begin_norm_axis", axis}, {"epsilon", n.Float("epsilon", 1e-5)}});
}

Status Gelu(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("gelu", {{x}}, {{"approximate", n.Text("approximate", "none") == "tanh"}});
}

constexpr OnnxReadRow kRows[] = {
    {"Add", Elementwise<kAdd>},
    {"Cast", Cast},
    {"Clip", Clip},
    {"Constant", Constant},
    {"Div", Elementwise<kDiv>},
    {"Dropout", Dropout},
    {"Erf", Erf},
    {"Gather", Gather},
    {"Gelu", Gelu},
    {"Gemm", Gemm},
    {"Identity", Identity},
    {"LayerNormalization", LayerNorm},
    {"MatMul", MatMul},
    {"Max", Elementwise<kMax>},
    {"Mul", Elementwise<kMul>},
    {"Pow", Pow},
    {"ReduceMax", Reduce<kReduceMax>},
    {"ReduceMean", Reduce<kReduceMean>},
    {"ReduceSum", Reduce<kReduceSum>},
    {"Relu", Plain<kRelu>},
    {"Sigmoid", Plain<kSigmoid>},
    {"Slice", Slice},
    {"Softmax", Softmax},
    {"Split", Split},
    {"Sqrt", Sqrt},
    {"Sub", Elementwise<kSub>},
    {"Sum", Sum},
    {"Tanh", Plain<kTanh>},
    {"Transpose", Transpose},
};

}  // namespace

Status CheckOnnxSoftmax(const OnnxNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return CheckLastAxis(n, x, n.opset() < 13 ? 1 : -1);
}

Status ReadOnnxNode(const std::string& type, const OnnxNode& node) {
  for (const std::span<const OnnxReadRow> rows :
       {std::span<const OnnxReadRow>(kRows), OnnxImageReaders(), OnnxShapeReaders()}) {
    for (const OnnxReadRow& row : rows) {
      if (type == row.type) return row.read(node);
    }
  }
  return Unimplemented("there is no operator for it");
}

}  // namespace tandem
