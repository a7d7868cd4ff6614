#include "trainer/onnx/export/op_writers.h"

#include <cmath>
#include <limits>

#include "common/base/require.h"

namespace tandem::onnx {
namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

// Gives access to an operator while its ONNX nodes are written.
class OpNode {
 public:
  OpNode(const ops::Op& op, const ops::OpView& view, GraphWriter& graph)
      : op_(op), view_(view), graph_(graph) {}

  GraphWriter& graph() const { return graph_; }
  const ops::OpView& view() const { return view_; }
  template <typename T>
  T attr(std::string_view name) const {
    return view_.attr<T>(name);
  }
  bool has(size_t slot) const { return slot < op_.inputs.size() && !op_.inputs[slot].empty(); }
  const Shape& shape(size_t position) const { return view_.in(position).shape; }
  const std::string& var(size_t slot) const {
    TD_REQUIRE(has(slot));
    return op_.inputs[slot][0];
  }
  const std::string& out() const { return op_.outputs[0][0]; }
  const Strings& outs() const { return op_.outputs[0]; }
  StatusOr<std::string> in(size_t slot) const { return graph_.Value(var(slot)); }
  StatusOr<Strings> ins(size_t slot) const {
    Strings values;
    for (const std::string& name : op_.inputs[slot]) {
      TD_ASSIGN_OR_RETURN(values.emplace_back(), graph_.Value(name));
    }
    return values;
  }
  // Adds the last node of the operator. The output of the node is the operator's output.
  Status Done(const char* type, const Strings& inputs, const ops::AttrMap& attrs = {}) const {
    graph_.Node(type, inputs, {out()}, attrs);
    return OkStatus();
  }
  std::string Temp(const char* type, const Strings& inputs, const ops::AttrMap& attrs = {}) const {
    return graph_.Temp(type, inputs, attrs);
  }

 private:
  const ops::Op& op_;
  const ops::OpView& view_;
  GraphWriter& graph_;
};

Ints Range(int64_t from, int64_t to) {
  Ints axes;
  for (int64_t axis = from; axis < to; ++axis) axes.push_back(axis);
  return axes;
}

// Returns pads in the order of ONNX: first the pads at the beginning of all dimensions, then the
// pads at the end.
Ints Pads(const Ints& p) {
  TD_REQUIRE(p.size() == 2);
  return {p[0], p[1], p[0], p[1]};
}

// Checks that the layout of an image operator is n,c,h,w. Only passes change the layout of a
// program.
Status NeedPlain(const OpNode& n, const char* attr) {
  const auto layout = n.attr<std::string>(attr);
  return layout == "NCHW"
             ? OkStatus()
             : Unimplemented("image layout %s cannot be exported to ONNX, expected NCHW [TD1217]",
                             layout);
}

template <const char* kType>
Status Plain(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done(kType, {x});
}
constexpr char kRelu[] = "Relu", kSigmoid[] = "Sigmoid", kTanh[] = "Tanh";

// In Tandem, Y is aligned with consecutive dimensions of X. In ONNX, the last dimensions are
// aligned, so Y may need further dimensions of size 1.
template <const char* kType>
Status Elementwise(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(std::string y, n.in(1));
  const int64_t rank = n.shape(1).rank(), axis = n.attr<int64_t>("axis");
  const int64_t trailing = axis < 0 ? 0 : n.shape(0).rank() - axis - rank;
  if (trailing > 0) y = n.Temp("Unsqueeze", {y}, {{"axes", Range(rank, rank + trailing)}});
  return n.Done(kType, {x, y});
}
constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kDiv[] = "Div", kMax[] = "Max";

Status Scale(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  const double bias = n.attr<double>("bias");
  const std::string factor = n.graph().Float(n.attr<double>("scale"));
  if (bias == 0) return n.Done("Mul", {x, factor});
  return n.Done("Add", {n.Temp("Mul", {x, factor}), n.graph().Float(bias)});
}

Status Gelu(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  std::string p;
  if (n.attr<bool>("approximate")) {
    const std::string cube = n.Temp("Mul", {n.Temp("Mul", {x, x}), x});
    const std::string sum = n.Temp("Add", {x, n.Temp("Mul", {cube, n.graph().Float(0.044715)})});
    p = n.Temp("Tanh", {n.Temp("Mul", {sum, n.graph().Float(std::sqrt(2 / M_PI))})});
  } else {
    p = n.Temp("Erf", {n.Temp("Mul", {x, n.graph().Float(M_SQRT1_2)})});
  }
  const std::string half = n.Temp("Mul", {x, n.graph().Float(0.5)});
  return n.Done("Mul", {half, n.Temp("Add", {p, n.graph().Float(1)})});
}

// Returns a mask for the last two dimensions [t,s] of X. The mask keeps the first i + 1 + s - t
// elements of row i.
StatusOr<std::string> CausalMask(const OpNode& n) {
  const Shape& x = n.shape(0);
  TD_REQUIRE(x.rank() >= 2);
  const int64_t t = x[x.rank() - 2], s = x[x.rank() - 1];
  if (s < t)
    return Unimplemented(
        "causal attention with fewer keys than queries cannot be exported to ONNX [TD1217]");
  std::vector<float> mask(static_cast<size_t>(t * s), 0.0f);
  for (int64_t i = 0; i < t; ++i) {
    std::fill(mask.begin() + i * s + i + 1 + s - t, mask.begin() + (i + 1) * s,
              -std::numeric_limits<float>::infinity());
  }
  return n.graph().Floats(absl::StrFormat("causal/%dx%d", t, s), {t, s}, mask);
}

Status Softmax(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(std::string x, n.in(0));
  if (n.attr<bool>("causal")) {
    TD_ASSIGN_OR_RETURN(const std::string mask, CausalMask(n));
    x = n.Temp("Add", {x, mask});
  }
  return n.Done("Softmax", {x}, {{"axis", int64_t{n.shape(0).rank() - 1}}});
}

Status Fc(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(Strings inputs, n.ins(0));
  const bool weight = n.graph().IsWeight(n.var(1));
  TD_ASSIGN_OR_RETURN(inputs.emplace_back(), weight ? n.graph().Transposed(n.var(1)) : n.in(1));
  if (n.has(2)) {
    TD_ASSIGN_OR_RETURN(inputs.emplace_back(), n.in(2));
  }
  return n.Done("Gemm", inputs, {{"transB", weight}});
}

Status Matmul(const OpNode& n) {
  Strings inputs;
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    TD_ASSIGN_OR_RETURN(std::string value, n.in(slot));
    if (n.attr<bool>(slot == 0 ? "trans_x" : "trans_y")) {
      Ints order = Range(0, n.shape(slot).rank());
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      value = n.Temp("Transpose", {value}, {{"perm", order}});
    }
    inputs.push_back(value);
  }
  const double alpha = n.attr<double>("alpha");
  if (alpha == 1) return n.Done("MatMul", inputs);
  return n.Done("Mul", {n.Temp("MatMul", inputs), n.graph().Float(alpha)});
}

Ints KernelOf(const Shape& filter) { return {filter[2], filter[3]}; }

Status Conv(const OpNode& n) {
  TD_RETURN_IF_ERROR(NeedPlain(n, "input_layout"));
  TD_ASSIGN_OR_RETURN(Strings inputs, n.ins(0));
  if (n.attr<bool>("fuse_relu_before_depthwise_conv")) inputs[0] = n.Temp("Relu", inputs);
  TD_ASSIGN_OR_RETURN(inputs.emplace_back(), n.in(1));
  if (n.has(2)) {
    TD_ASSIGN_OR_RETURN(inputs.emplace_back(), n.in(2));
  }
  return n.Done("Conv", inputs,
                {{"kernel_shape", KernelOf(n.shape(1))},
                 {"strides", n.attr<Ints>("strides")},
                 {"pads", Pads(n.attr<Ints>("paddings"))},
                 {"dilations", n.attr<Ints>("dilations")},
                 {"group", n.attr<int64_t>("groups")}});
}

Status ConvTranspose(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const std::string filter, n.in(1));
  return n.Done("ConvTranspose", {x, filter},
                {{"kernel_shape", KernelOf(n.shape(1))},
                 {"strides", n.attr<Ints>("strides")},
                 {"pads", Pads(n.attr<Ints>("paddings"))},
                 {"dilations", n.attr<Ints>("dilations")},
                 {"output_padding", n.attr<Ints>("output_padding")},
                 {"group", n.attr<int64_t>("groups")}});
}

Status Pool(const OpNode& n) {
  TD_RETURN_IF_ERROR(NeedPlain(n, "data_layout"));
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const bool max = n.attr<std::string>("pooling_type") == "max";
  if (n.attr<bool>("global_pooling")) {
    return n.Done(max ? "GlobalMaxPool" : "GlobalAveragePool", {x});
  }
  ops::AttrMap attrs = {{"kernel_shape", n.attr<Ints>("ksize")},
                        {"strides", n.attr<Ints>("strides")},
                        {"pads", Pads(n.attr<Ints>("paddings"))}};
  if (!max) attrs["count_include_pad"] = !n.attr<bool>("exclusive");
  return n.Done(max ? "MaxPool" : "AveragePool", {x}, attrs);
}

Status BatchNorm(const OpNode& n) {
  TD_RETURN_IF_ERROR(NeedPlain(n, "data_layout"));
  Strings inputs;
  for (size_t slot = 0; slot < 5; ++slot) {
    TD_ASSIGN_OR_RETURN(inputs.emplace_back(), n.in(slot));
  }
  return n.Done("BatchNormalization", inputs, {{"epsilon", n.attr<double>("epsilon")}});
}

// Composes a layer normalisation of several nodes, because ONNX has no such node before opset 17.
Status LayerNorm(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Shape& shape = n.shape(0);
  const int64_t begin = n.attr<int64_t>("begin_norm_axis");
  const ops::AttrMap rows = {{"axes", Range(begin, shape.rank())}, {"keepdims", true}};
  const std::string centred = n.Temp("Sub", {x, n.Temp("ReduceMean", {x}, rows)});
  const std::string variance = n.Temp("ReduceMean", {n.Temp("Mul", {centred, centred})}, rows);
  const std::string epsilon = n.graph().Float(n.attr<double>("epsilon"));
  std::string y = n.Temp("Div", {centred, n.Temp("Sqrt", {n.Temp("Add", {variance, epsilon})})});
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    if (!n.has(slot)) continue;
    TD_ASSIGN_OR_RETURN(std::string value, n.in(slot));
    if (begin < shape.rank() - 1) {
      const Ints row(shape.dims().begin() + begin, shape.dims().end());
      value = n.Temp("Reshape", {value, n.graph().Ints(row)});
    }
    y = n.Temp(slot == 1 ? "Mul" : "Add", {y, value});
  }
  n.graph().Alias(n.out(), y);
  return OkStatus();
}

Status Dropout(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  n.graph().Alias(n.out(), x);
  return OkStatus();
}

Status Reshape(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("Reshape", {x, n.graph().Ints(n.attr<Ints>("shape"))});
}

Status Transpose(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("Transpose", {x}, {{"perm", n.attr<Ints>("axis")}});
}

Status Concat(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const Strings inputs, n.ins(0));
  return n.Done("Concat", inputs, {{"axis", n.attr<int64_t>("axis")}});
}

Status Split(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  ops::AttrMap attrs = {{"axis", n.attr<int64_t>("axis")}};
  if (const auto sections = n.attr<Ints>("sections"); !sections.empty()) attrs["split"] = sections;
  n.graph().Node("Split", {x}, n.outs(), attrs);
  return OkStatus();
}

Status Slice(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done("Slice",
                {x, n.graph().Ints(n.attr<Ints>("starts")), n.graph().Ints(n.attr<Ints>("ends")),
                 n.graph().Ints(n.attr<Ints>("axes"))});
}

Status Cast(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  TD_ASSIGN_OR_RETURN(const DType dtype, ParseDType(n.attr<std::string>("out_dtype")));
  return n.Done("Cast", {x}, {{"to", int64_t{ElementTypeNumber(dtype)}}});
}

Status Clip(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  return n.Done(
      "Clip", {x, n.graph().Float(n.attr<double>("min")), n.graph().Float(n.attr<double>("max"))});
}

Status Lookup(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(std::string ids, n.in(0));
  const Shape& shape = n.shape(0);
  const int64_t padding = n.attr<int64_t>("padding_idx");
  if (padding >= 0 && !n.graph().IsWeight(n.var(1))) {
    return Unimplemented("padding_idx of a computed table cannot be exported to ONNX [TD1217]");
  }
  TD_ASSIGN_OR_RETURN(const std::string table,
                      padding < 0 ? n.in(1) : n.graph().WithZeroRow(n.var(1), padding));
  if (n.attr<bool>("squeeze_last") && shape.rank() >= 2 && shape[shape.rank() - 1] == 1) {
    ids = n.Temp("Squeeze", {ids}, {{"axes", Ints{shape.rank() - 1}}});
  }
  return n.Done("Gather", {table, ids}, {{"axis", int64_t{0}}});
}

Status Mean(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const std::string mean = n.Temp("ReduceMean", {x}, {{"keepdims", false}});
  return n.Done("Reshape", {mean, n.graph().Ints({1})});
}

template <const char* kType>
Status Reduce(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const Ints dims = n.attr<Ints>("dim");
  const bool keep = n.attr<bool>("keep_dim");
  ops::AttrMap attrs = {{"keepdims", keep}};
  if (!dims.empty()) attrs["axes"] = dims;
  const bool all = dims.empty() || static_cast<int>(dims.size()) == n.shape(0).rank();
  if (keep || !all) return n.Done(kType, {x}, attrs);
  return n.Done("Reshape", {n.Temp(kType, {x}, attrs), n.graph().Ints({1})});
}
constexpr char kReduceSum[] = "ReduceSum", kReduceMean[] = "ReduceMean", kReduceMax[] = "ReduceMax";

Status Sum(const OpNode& n) {
  TD_ASSIGN_OR_RETURN(const Strings inputs, n.ins(0));
  return n.Done("Sum", inputs);
}

Status SequencePool(const OpNode& n) {
  if (n.has(1))
    return Unimplemented("sequences with input Lengths cannot be exported to ONNX [TD1217]");
  TD_ASSIGN_OR_RETURN(const std::string x, n.in(0));
  const auto type = n.attr<std::string>("pooltype");
  const int64_t steps = n.shape(0)[1];
  if (steps == 0)
    return Unimplemented("sequences without time steps cannot be exported to ONNX [TD1217]");
  if (type == "first" || type == "last") {
    const int64_t at = type == "first" ? 0 : steps - 1;
    const std::string index = n.Temp("Squeeze", {n.graph().Ints({at})}, {{"axes", Ints{0}}});
    return n.Done("Gather", {x, index}, {{"axis", int64_t{1}}});
  }
  const ops::AttrMap attrs = {{"axes", Ints{1}}, {"keepdims", false}};
  if (type == "max") return n.Done("ReduceMax", {x}, attrs);
  if (type == "average") return n.Done("ReduceMean", {x}, attrs);
  if (type == "sum") return n.Done("ReduceSum", {x}, attrs);
  const double factor = 1 / std::sqrt(static_cast<double>(steps));
  return n.Done("Mul", {n.Temp("ReduceSum", {x}, attrs), n.graph().Float(factor)});
}

struct Row {
  const char* type;
  Status (*write)(const OpNode& node);
};

constexpr Row kWriteRows[] = {
    {"batch_norm", BatchNorm},
    {"cast", Cast},
    {"clip", Clip},
    {"concat", Concat},
    {"conv2d", Conv},
    {"conv2d_transpose", ConvTranspose},
    {"dropout", Dropout},
    {"elementwise_add", Elementwise<kAdd>},
    {"elementwise_div", Elementwise<kDiv>},
    {"elementwise_max", Elementwise<kMax>},
    {"elementwise_mul", Elementwise<kMul>},
    {"elementwise_sub", Elementwise<kSub>},
    {"fc", Fc},
    {"gelu", Gelu},
    {"layer_norm", LayerNorm},
    {"lookup_table", Lookup},
    {"matmul", Matmul},
    {"mean", Mean},
    {"pool2d", Pool},
    {"reduce_max", Reduce<kReduceMax>},
    {"reduce_mean", Reduce<kReduceMean>},
    {"reduce_sum", Reduce<kReduceSum>},
    {"relu", Plain<kRelu>},
    {"reshape", Reshape},
    {"scale", Scale},
    {"sequence_pool", SequencePool},
    {"sigmoid", Plain<kSigmoid>},
    {"slice", Slice},
    {"softmax", Softmax},
    {"split", Split},
    {"sum", Sum},
    {"tanh", Plain<kTanh>},
    {"transpose", Transpose},
};

}  // namespace

Status WriteOp(const graph::Program& program, const ops::Op& op, GraphWriter& graph) {
  const ops::OpDef& def = *ops::FindOp(op.type);
  std::vector<const TensorDesc*> in;
  for (size_t s = 0; s < def.inputs.size(); ++s) {
    if (op.inputs[s].empty() && def.inputs[s].arity == ops::Arity::kOptional) in.push_back(nullptr);
    for (const std::string& name : op.inputs[s]) in.push_back(&program.FindVar(name)->desc);
  }
  const ops::OpView view(op, def, in, {});
  for (const Row& row : kWriteRows) {
    if (op.type == row.type) return row.write(OpNode(op, view, graph));
  }
  return Unimplemented(
      "the operator cannot be exported to ONNX [TD1217]; hint: export to .safetensors, or name "
      "earlier variables with --outputs=VARIABLE");
}

}  // namespace tandem::onnx
