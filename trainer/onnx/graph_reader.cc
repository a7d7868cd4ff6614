#include "trainer/onnx/graph_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/ascii.h"
#include "onnx/onnx.pb.h"

namespace tandem {
namespace {

constexpr int64_t kBatch = 2, kOtherBatch = 3;  // while the program is made
constexpr size_t kListMax = 4096;

StatusOr<DType> TypeOf(int type) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
      return DType::kF32;
    case onnx::TensorProto::INT64:
      return DType::kI64;
    case onnx::TensorProto::INT32:
      return DType::kI32;
    default:
      break;
  }
  const bool named = onnx::TensorProto::DataType_IsValid(type);
  const auto value = static_cast<onnx::TensorProto::DataType>(type);
  return Unimplemented("elements of type %s (FLOAT, INT64 and INT32 are read)",
                       named ? onnx::TensorProto::DataType_Name(value) : std::to_string(type));
}

template <typename T, typename Field>
bool CopyField(const Field& field, const Tensor& out) {
  if (field.size() != out.numel()) return false;
  std::copy(field.begin(), field.end(), out.span<T>().begin());
  return true;
}

StatusOr<Tensor> TensorOf(const onnx::TensorProto& proto, Device& host) {
  if (proto.data_location() == onnx::TensorProto::EXTERNAL || proto.external_data_size() > 0) {
    return Unimplemented("its numbers are in another file; hint: save the model as one file");
  }
  TD_ASSIGN_OR_RETURN(const DType dtype, TypeOf(proto.data_type()));
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  TD_ASSIGN_OR_RETURN(const Shape shape, ParseShape(dims));
  const auto bytes = static_cast<uint64_t>(shape.numel()) * SizeOf(dtype);
  // Before memory is taken for what the file does not hold.
  if (bytes > proto.ByteSizeLong() * 8) {
    return DataLoss("%s needs %d bytes, which are not there", ToString(shape), bytes);
  }
  TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({dtype, shape}, host));
  bool whole = false;
  if (proto.has_raw_data()) {
    whole = proto.raw_data().size() == bytes;
    if (whole) std::memcpy(tensor.data(), proto.raw_data().data(), bytes);
  } else if (dtype == DType::kF32) {
    whole = CopyField<float>(proto.float_data(), tensor);
  } else if (dtype == DType::kI64) {
    whole = CopyField<int64_t>(proto.int64_data(), tensor);
  } else {
    whole = CopyField<int32_t>(proto.int32_data(), tensor);
  }
  if (!whole) return DataLoss("%s needs %d bytes, which are not there", ToString(shape), bytes);
  return tensor;
}

StatusOr<Tensor> Turned(const Tensor& from, Device& host) {
  const int64_t rows = from.shape()[0], columns = from.shape()[1];
  TD_ASSIGN_OR_RETURN(Tensor to, Tensor::Make({DType::kF32, {columns, rows}}, host));
  const auto x = from.span<float>();
  const auto y = to.span<float>();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      y[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * columns + j)];
    }
  }
  return to;
}

}  // namespace

Status OnnxGraphReader::AddConstant(const std::string& value, const onnx::TensorProto& tensor,
                                    bool trained) {
  auto numbers = TensorOf(tensor, host_);
  if (!numbers.ok()) return Annotate(numbers.status(), "tensor \"" + value + "\"");
  // A mask, of infinities and zeros, is none.
  const auto finite = [](float v) { return std::isfinite(v); };
  if (trained && numbers->dtype() == DType::kF32) {
    trained = std::all_of(numbers->span<float>().begin(), numbers->span<float>().end(), finite);
  }
  known_.insert_or_assign(value, Known{*std::move(numbers), trained});
  return OkStatus();
}

Status OnnxGraphReader::AddInts(const std::string& value, const std::vector<int64_t>& ints) {
  if (ints.size() > kListMax) return Unimplemented("a list of %d sizes", ints.size());
  const Shape shape = {static_cast<int64_t>(ints.size())};
  TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({DType::kI64, shape}, host_));
  std::copy(ints.begin(), ints.end(), tensor.span<int64_t>().begin());
  known_.insert_or_assign(value, Known{std::move(tensor), /*trained=*/false});
  return OkStatus();
}

Status OnnxGraphReader::AddInput(const onnx::ValueInfoProto& input, const std::string& var) {
  const std::string where = "input \"" + input.name() + "\"";
  if (!input.type().has_tensor_type()) return Unimplemented("%s is no tensor", where);
  const auto& type = input.type().tensor_type();
  const auto dtype = TypeOf(type.elem_type());
  if (!dtype.ok()) return Annotate(dtype.status(), where);
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) {
    if (dims.empty()) {
      dims.push_back(kBatch);
      if (dim.dim_value() > 0) fixed_batch_ = dim.dim_value();
    } else if (dim.dim_value() > 0) {
      dims.push_back(dim.dim_value());
    } else {
      return Unimplemented("%s: dimension %d has no size; only the first one, the batch, may",
                           where, dims.size());
    }
  }
  if (dims.empty()) return Unimplemented("%s has no dimension for the batch", where);
  const auto shape = ParseShape(dims);
  if (!shape.ok()) return Annotate(shape.status(), where);
  TD_RETURN_IF_ERROR(Annotate(
      AddVar(
          {.name = var, .kind = VarKind::kData, .desc = {*dtype, *shape}, .batch_leading = true}),
      where));
  vars_[input.name()] = var;
  return OkStatus();
}

Status OnnxGraphReader::AddVar(tandem::Var var) {
  if (var.batch_leading) var.desc.shape[0] = kBatch;
  TD_RETURN_IF_ERROR(out_.program.AddVar(var));
  if (var.batch_leading) var.desc.shape[0] = kOtherBatch;
  return other_.AddVar(std::move(var));
}

Status OnnxGraphReader::Append(Op op) {
  TD_RETURN_IF_ERROR(AppendOp(out_.program, op));
  const Status other = AppendOp(other_, std::move(op));
  if (other.ok()) return other;
  return Unimplemented("it fits a batch of %d alone, not one of %d: %s", kBatch, kOtherBatch,
                       std::string(other.message()));
}

bool OnnxGraphReader::DependsOnBatch(const std::string& var, int axis) const {
  return Desc(var).shape[axis] != other_.FindVar(var)->desc.shape[axis];
}

bool OnnxGraphReader::HasBatch(const std::string& var) const {
  const Shape& shape = Desc(var).shape;
  return shape.rank() > 0 && shape[0] == kBatch && DependsOnBatch(var, 0);
}

Status OnnxGraphReader::CheckSizes(const std::string& var) const {
  for (int axis = 1; axis < Desc(var).shape.rank(); ++axis) {
    if (!DependsOnBatch(var, axis)) continue;
    return Unimplemented("dimension %d of \"%s\" depends on the batch; only the first one may",
                         axis, var);
  }
  return OkStatus();
}

const Tensor* OnnxGraphReader::Constant(const std::string& value) const {
  const auto it = known_.find(value);
  return it == known_.end() ? nullptr : &it->second.tensor;
}

const float* OnnxGraphReader::Scalar(const std::string& value) const {
  const auto it = known_.find(value);
  if (it == known_.end()) return nullptr;
  const Tensor& tensor = it->second.tensor;
  const bool trained = it->second.trained && tensor.shape().rank() > 0;
  const bool one = tensor.dtype() == DType::kF32 && tensor.numel() == 1 && !trained;
  return one ? tensor.span<float>().data() : nullptr;
}

std::string OnnxGraphReader::NewVar(const std::string& base) const {
  std::string name = base.substr(0, 150);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!absl::ascii_isalnum(byte) && c != '.' && c != '_' && c != '/' && c != '-') c = '_';
  }
  return out_.program.FreshName(name.empty() ? "value" : name);
}

StatusOr<std::string> OnnxGraphReader::Declare(const std::string& value, VarKind kind,
                                               Tensor tensor) {
  if (tensor.dtype() != DType::kF32) {
    return Unimplemented("\"%s\" holds whole numbers, which an operator cannot take here", value);
  }
  const std::string name = NewVar(value);
  // Values are those of `tensor`; without them training starts as it does elsewhere.
  Init init = {Init::kConstant, 0.0f};
  if (tensor.shape().rank() >= 2) init = {Init::kXavierUniform};
  TD_RETURN_IF_ERROR(AddVar({.name = name, .kind = kind, .desc = tensor.desc(), .init = init}));
  out_.tensors[name] = std::move(tensor);
  return vars_[value] = name;
}

StatusOr<std::string> OnnxGraphReader::Var(const std::string& value) {
  if (turned_.contains(value)) {
    const std::string out = NewVar(value + ".T");
    TD_RETURN_IF_ERROR(
        Append("transpose", {{vars_[value]}}, {{"axis", std::vector<int64_t>{1, 0}}}, out));
    return out;
  }
  if (const auto it = vars_.find(value); it != vars_.end()) return it->second;
  const auto it = known_.find(value);
  if (it == known_.end()) return InvalidArgument("nothing before it gives \"%s\"", value);
  return Declare(value, it->second.trained ? VarKind::kParam : VarKind::kState, it->second.tensor);
}

StatusOr<std::string> OnnxGraphReader::State(const std::string& value) {
  const auto it = known_.find(value);
  if (it == known_.end() || vars_.contains(value)) {
    return Unimplemented("\"%s\" is computed or used twice, and must be kept from step to step",
                         value);
  }
  return Declare(value, VarKind::kState, it->second.tensor);
}

StatusOr<std::string> OnnxGraphReader::Matrix(const std::string& value, bool transposed) {
  const auto it = known_.find(value);
  const bool known = it != known_.end() && it->second.tensor.shape().rank() == 2 &&
                     it->second.tensor.dtype() == DType::kF32;
  if (!transposed) return Var(value);
  if (known && turned_.contains(value)) return vars_[value];
  if (known && !vars_.contains(value)) {
    TD_ASSIGN_OR_RETURN(Tensor turned, Turned(it->second.tensor, host_));
    const VarKind kind = it->second.trained ? VarKind::kParam : VarKind::kState;
    TD_ASSIGN_OR_RETURN(const std::string var, Declare(value, kind, std::move(turned)));
    turned_.insert(value);
    return var;
  }
  TD_ASSIGN_OR_RETURN(const std::string var, Var(value));
  const std::string out = NewVar(value + ".T");
  TD_RETURN_IF_ERROR(Append("transpose", {{var}}, {{"axis", std::vector<int64_t>{1, 0}}}, out));
  return out;
}

Status OnnxGraphReader::Append(const std::string& type,
                               std::vector<std::vector<std::string>> inputs, AttrMap attrs,
                               const std::string& out) {
  const OpDef& def = *FindOp(type);
  inputs.resize(def.inputs.size());
  std::vector<std::vector<std::string>> outputs = {{out}};
  for (size_t s = 1; s < def.outputs.size(); ++s) {
    outputs.push_back({out_.program.FreshName(out + "." + def.outputs[s].name)});
  }
  return Append(Op{.type = type,
                   .inputs = std::move(inputs),
                   .outputs = std::move(outputs),
                   .attrs = std::move(attrs)});
}

size_t OnnxNode::inputs() const { return static_cast<size_t>(node_.input_size()); }

bool OnnxNode::has(size_t input) const { return input < inputs() && !value(input).empty(); }

const std::string& OnnxNode::value(size_t input) const {
  return node_.input(static_cast<int>(input));
}

StatusOr<std::string> OnnxNode::in(size_t input) const {
  if (!has(input)) return InvalidArgument("input %d is missing", input);
  return graph_.Var(value(input));
}

StatusOr<std::vector<int64_t>> OnnxNode::ConstantInts(size_t input) const {
  TD_ASSIGN_OR_RETURN(std::vector<int64_t> ints, ConstantSizes(input));
  const bool batch = std::find(ints.begin(), ints.end(), kOnnxBatch) != ints.end();
  if (batch) return Unimplemented("\"%s\" depends on the batch", value(input));
  return ints;
}

StatusOr<std::vector<int64_t>> OnnxNode::ConstantSizes(size_t input) const {
  if (!has(input)) return InvalidArgument("input %d is missing", input);
  const Tensor* tensor = graph_.Constant(value(input));
  if (tensor == nullptr) {
    return Unimplemented("\"%s\" is computed; it must be known beforehand", value(input));
  }
  if (tensor->dtype() == DType::kF32) {
    return InvalidArgument("\"%s\" must be whole numbers", value(input));
  }
  if (tensor->dtype() == DType::kI64) {
    return std::vector<int64_t>(tensor->span<int64_t>().begin(), tensor->span<int64_t>().end());
  }
  return std::vector<int64_t>(tensor->span<int32_t>().begin(), tensor->span<int32_t>().end());
}

std::optional<std::vector<int64_t>> OnnxNode::Known(size_t input) const {
  auto ints = ConstantSizes(input);
  return ints.ok() ? std::optional(*std::move(ints)) : std::nullopt;
}

const float* OnnxNode::Scalar(size_t input) const {
  return has(input) ? graph_.Scalar(value(input)) : nullptr;
}

const onnx::AttributeProto* OnnxNode::Attr(const char* name) const {
  read_.insert(name);
  for (const auto& attr : node_.attribute()) {
    if (attr.name() == name) return &attr;
  }
  return nullptr;
}

int64_t OnnxNode::Int(const char* name, int64_t fallback) const {
  const auto* attr = Attr(name);
  return attr == nullptr ? fallback : attr->i();
}

double OnnxNode::Float(const char* name, double fallback) const {
  const auto* attr = Attr(name);
  return attr == nullptr ? fallback : attr->f();
}

std::string OnnxNode::Text(const char* name, const std::string& fallback) const {
  const auto* attr = Attr(name);
  return attr == nullptr ? fallback : attr->s();
}

std::vector<int64_t> OnnxNode::Ints(const char* name, std::vector<int64_t> fallback) const {
  const auto* attr = Attr(name);
  if (attr == nullptr) return fallback;
  return {attr->ints().begin(), attr->ints().end()};
}

Status OnnxNode::Only(const char* name, int64_t value) const {
  const int64_t given = Int(name, value);
  return given == value ? OkStatus() : Unimplemented("%s = %d", name, given);
}

StatusOr<int64_t> OnnxNode::Axis(int64_t axis, int rank) const {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  return InvalidArgument("there is no dimension %d of %d", axis, rank);
}

StatusOr<std::vector<int64_t>> OnnxNode::Axes(int64_t last, int rank) const {
  std::vector<int64_t> axes = Ints("axes", {});
  if (opset() > last && has(1)) {
    TD_ASSIGN_OR_RETURN(axes, ConstantInts(1));
  }
  for (int64_t& axis : axes) {
    TD_ASSIGN_OR_RETURN(axis, Axis(axis, rank));
  }
  return axes;
}

size_t OnnxNode::outputs() const { return static_cast<size_t>(node_.output_size()); }

const std::string& OnnxNode::out(size_t output) const {
  return node_.output(static_cast<int>(output));
}

const std::string& OnnxNode::out() const { return out(0); }

Status OnnxNode::Done(const std::string& type, std::vector<std::vector<std::string>> inputs,
                      AttrMap attrs) const {
  const std::string var = graph_.NewVar(out());
  TD_RETURN_IF_ERROR(graph_.Append(type, std::move(inputs), std::move(attrs), var));
  graph_.Bind(out(), var);
  return OkStatus();
}

StatusOr<std::string> OnnxNode::Temp(const std::string& type,
                                     std::vector<std::vector<std::string>> inputs,
                                     AttrMap attrs) const {
  const std::string var = graph_.NewVar(out() + "." + type);
  TD_RETURN_IF_ERROR(graph_.Append(type, std::move(inputs), std::move(attrs), var));
  return var;
}

Status OnnxNode::AllRead() const {
  for (const auto& attr : node_.attribute()) {
    if (!read_.contains(attr.name())) return Unimplemented("attribute \"%s\"", attr.name());
  }
  return OkStatus();
}

}  // namespace tandem
