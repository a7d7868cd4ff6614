#include "trainer/onnx/graph_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/ascii.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/tensor_reader.h"

namespace tandem::onnx {
namespace {

constexpr int64_t kBatch = 2, kOtherBatch = 3;  // batch sizes while the program is built
constexpr size_t kListMax = 4096;
constexpr float kMaskMin = 1e9f;  // numbers at least this large mask the numbers they are added to

// Whether the tensor contains a mask number: an infinity, or a number of at least kMaskMin.
bool IsMask(const Tensor& tensor) {
  const auto numbers = tensor.span<float>();
  return std::any_of(numbers.begin(), numbers.end(),
                     [](float v) { return !(std::abs(v) < kMaskMin); });
}

bool IsUniform(const Tensor& tensor) {
  const auto numbers = tensor.span<float>();
  return numbers.size() > 1 &&
         std::all_of(numbers.begin(), numbers.end(), [&](float v) { return v == numbers[0]; });
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

Status OnnxGraphReader::AddConstant(const std::string& value, const ::onnx::TensorProto& proto,
                                    bool trained) {
  auto tensor = ReadOnnxTensor(proto, external_, host_);
  if (!tensor.ok()) return Annotate(tensor.status(), "tensor \"" + value + "\"");
  trained = trained && proto.data_type() == ::onnx::TensorProto::FLOAT && !IsMask(*tensor);
  const bool uniform = trained && IsUniform(*tensor);
  known_.insert_or_assign(value, Known{*std::move(tensor), trained, uniform});
  return OkStatus();
}

void OnnxGraphReader::AddKnown(const std::string& value, Tensor tensor) {
  known_.insert_or_assign(value, Known{std::move(tensor), /*trained=*/false, /*uniform=*/false});
}

StatusOr<Tensor> OnnxGraphReader::NewTensor(DType dtype, const Shape& shape) const {
  return Tensor::Make({dtype, shape}, host_);
}

Status OnnxGraphReader::AddInts(const std::string& value, const std::vector<int64_t>& ints) {
  if (ints.size() > kListMax)
    return Unimplemented(
        "the list of sizes has %d entries, which is more than this program supports [TD7015]",
        ints.size());
  const Shape shape = {static_cast<int64_t>(ints.size())};
  TD_ASSIGN_OR_RETURN(Tensor tensor, NewTensor(DType::kI64, shape));
  std::copy(ints.begin(), ints.end(), tensor.span<int64_t>().begin());
  AddKnown(value, std::move(tensor));
  return OkStatus();
}

Status OnnxGraphReader::AddInput(const ::onnx::ValueInfoProto& input, const std::string& var) {
  const std::string where = "input \"" + input.name() + "\"";
  if (!input.type().has_tensor_type()) return Unimplemented("%s is not a tensor [TD7015]", where);
  const auto& type = input.type().tensor_type();
  const auto dtype = OnnxElementType(type.elem_type());
  if (!dtype.ok()) return Annotate(dtype.status(), where);
  std::vector<int64_t> dims;
  for (const auto& dim : type.shape().dim()) {
    if (dims.empty()) {
      dims.push_back(kBatch);
      if (dim.dim_value() > 0) fixed_batch_ = dim.dim_value();
    } else if (dim.dim_value() > 0) {
      dims.push_back(dim.dim_value());
    } else {
      return Unimplemented(
          "%s: dimension %d has no size, which is allowed only for dimension 0, the batch "
          "[TD1214]; hint: export the model with a fixed size for this dimension",
          where, dims.size());
    }
  }
  if (dims.empty())
    return Unimplemented("%s is a scalar, expected a first dimension for the batch [TD1214]",
                         where);
  const auto shape = ParseShape(dims);
  if (!shape.ok()) return Annotate(shape.status(), where);
  TD_RETURN_IF_ERROR(Annotate(
      AddVar(
          {.name = var, .kind = VarKind::kData, .desc = {*dtype, *shape}, .batch_leading = true}),
      where));
  vars_[input.name()] = var;
  if (first_input_.empty()) first_input_ = var;
  return OkStatus();
}

Status OnnxGraphReader::AddVar(tandem::Var var) {
  if (var.batch_leading) var.desc.shape[0] = kBatch;
  TD_RETURN_IF_ERROR(out_.program.AddVar(var));
  if (var.batch_leading) var.desc.shape[0] = kOtherBatch;
  return other_.AddVar(std::move(var));
}

// Whether `op` reads numbers that were stored for the batch size for which the model was saved.
bool OnnxGraphReader::ReadsFixedBatch(const Op& op) const {
  bool reads = false;
  ForEachRead(op, [&](const std::string& name) {
    const tandem::Var* var = out_.program.FindVar(name);
    const bool kept =
        var != nullptr && (var->kind == VarKind::kParam || var->kind == VarKind::kState);
    reads |= kept && fixed_batch_ > 1 && var->desc.shape.rank() > 0 &&
             var->desc.shape[0] == fixed_batch_;
  });
  return reads;
}

Status OnnxGraphReader::Append(Op op) {
  const Status here = AppendOp(out_.program, op);
  if (!here.ok() && ReadsFixedBatch(op)) {
    return Unimplemented(
        "the model contains numbers that fit only batch size %d: %s [TD7016]; hint: export the "
        "model with a dynamic batch",
        fixed_batch_, std::string(here.message()));
  }
  TD_RETURN_IF_ERROR(here);
  const Status other = AppendOp(other_, op);
  if (!other.ok()) {
    return Unimplemented(
        "the operator accepts batch size %d, but not %d: %s [TD1214]; hint: export the model with "
        "a dynamic batch",
        kBatch, kOtherBatch, std::string(other.message()));
  }
  CarryPieces(op);
  return OkStatus();
}

bool OnnxGraphReader::DependsOnBatch(const std::string& var, int axis) const {
  return Desc(var).shape[axis] != other_.FindVar(var)->desc.shape[axis];
}

bool OnnxGraphReader::HasBatch(const std::string& var) const {
  const Shape& shape = Desc(var).shape;
  return shape.rank() > 0 && shape[0] == kBatch && DependsOnBatch(var, 0);
}

StatusOr<std::optional<OnnxBatchAxis>> OnnxGraphReader::BatchOf(const std::string& var) const {
  const Shape &here = Desc(var).shape, &there = other_.FindVar(var)->desc.shape;
  std::optional<OnnxBatchAxis> batch;
  for (int axis = 0; axis < here.rank(); ++axis) {
    if (here[axis] == there[axis]) continue;
    if (batch) {
      return Unimplemented(
          "dimensions %d and %d of \"%s\" both depend on the batch, but only one dimension may "
          "[TD1214]",
          batch->axis, axis, var);
    }
    if (here[axis] * kOtherBatch != there[axis] * kBatch || here[axis] / kBatch > kOnnxBatchesMax) {
      return Unimplemented(
          "dimension %d of \"%s\" depends on the batch, but is not a multiple of the batch size "
          "[TD1214]",
          axis, var);
    }
    const auto pieces = pieces_.find(var);
    batch = {.axis = axis,
             .times = here[axis] / kBatch,
             .stride = (pieces == pieces_.end() ? 1 : pieces->second) *
                       here.numel(axis + 1, here.rank())};
  }
  return batch;
}

StatusOr<std::vector<int64_t>> OnnxGraphReader::Sizes(const std::string& var) const {
  TD_ASSIGN_OR_RETURN(const std::optional<OnnxBatchAxis> batch, BatchOf(var));
  const Shape& shape = Desc(var).shape;
  std::vector<int64_t> sizes(shape.dims().begin(), shape.dims().end());
  if (batch) sizes[static_cast<size_t>(batch->axis)] = kOnnxBatch + batch->times;
  return sizes;
}

Status OnnxGraphReader::Reshape(const std::string& var, const std::vector<int64_t>& sizes,
                                const std::string& out) {
  TD_ASSIGN_OR_RETURN(const std::optional<OnnxBatchAxis> batch, BatchOf(var));
  std::vector<int64_t> dims = sizes;
  int at = -1;
  int64_t behind = 1;  // number of elements in the dimensions after `at`
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (IsOnnxBatch(sizes[i]) && at < 0) {
      at = static_cast<int>(i);
      dims[i] = -1;
      behind = 1;
    } else if (sizes[i] < 1 || __builtin_mul_overflow(behind, sizes[i], &behind)) {
      return Unimplemented(
          "dimension %d of the result is empty or is a second dimension that depends on the batch "
          "[TD1214]",
          i);
    }
  }
  if (batch.has_value() != (at >= 0)) {
    return Unimplemented(
        "\"%s\" and the reshaped result must both depend on the batch, or neither [TD1214]; hint: "
        "export the model with a dynamic batch",
        var);
  }
  const int64_t times = batch ? sizes[static_cast<size_t>(at)] - kOnnxBatch : 0;
  if (batch && (batch->stride % behind != 0 || times % (batch->stride / behind) != 0)) {
    return Unimplemented("the reshape would put numbers of two samples into one row [TD1214]");
  }
  TD_RETURN_IF_ERROR(Append("reshape", {{var}}, {{"shape", dims}}, out));
  if (!batch) return OkStatus();
  if (Desc(out).shape[at] != times * kBatch) {
    return InvalidArgument("the reshaped result has the wrong shape %s [TD2108]",
                           ToString(Desc(out).shape));
  }
  pieces_[out] = batch->stride / behind;
  return OkStatus();
}

// Copies the sample layout of an operator's inputs to its outputs, if both have a dimension with
// the same number of batches.
void OnnxGraphReader::CarryPieces(const Op& op) {
  std::map<int64_t, int64_t> pieces;  // by number of batches
  ForEachRead(op, [&](const std::string& var) {
    const auto it = pieces_.find(var);
    const auto batch = it == pieces_.end() ? std::nullopt : BatchOf(var).value_or(std::nullopt);
    if (batch) pieces.emplace(batch->times, it->second);
  });
  if (pieces.empty()) return;
  ForEachWrite(op, [&](const std::string& var) {
    const auto batch = BatchOf(var).value_or(std::nullopt);
    const auto it = batch ? pieces.find(batch->times) : pieces.end();
    if (it != pieces.end()) pieces_[var] = it->second;
  });
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

const Tensor* OnnxGraphReader::Untrained(const std::string& value) const {
  const auto it = known_.find(value);
  if (it == known_.end()) return nullptr;
  return it->second.trained && Scalar(value) == nullptr ? nullptr : &it->second.tensor;
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
    return Unimplemented(
        "input \"%s\" contains integers, but this operator accepts only floating-point numbers "
        "[TD7015]",
        value);
  }
  const std::string name = NewVar(value);
  // The values are those of `tensor`. If they are not used, training initialises the parameter as
  // usual.
  Init init = {Init::kConstant, 0.0f};
  if (tensor.shape().rank() >= 2) init = {Init::kXavierUniform};
  TD_RETURN_IF_ERROR(AddVar({.name = name, .kind = kind, .desc = tensor.desc(), .init = init}));
  out_.tensors[name] = std::move(tensor);
  const auto known = known_.find(value);
  if (known == known_.end() || !known->second.uniform) vars_[value] = name;
  return name;
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
  if (it == known_.end())
    return InvalidArgument(
        "input \"%s\" is not the output of an earlier node and not an initializer [TD2108]", value);
  return Declare(value, it->second.trained ? VarKind::kParam : VarKind::kState, it->second.tensor);
}

StatusOr<std::string> OnnxGraphReader::State(const std::string& value) {
  const auto it = known_.find(value);
  if (it == known_.end() || vars_.contains(value)) {
    return Unimplemented(
        "\"%s\" is a running statistic, but another node computes or reads it [TD7015]; hint: "
        "export the model after model.eval()",
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
    if (!it->second.uniform) turned_.insert(value);
    return var;
  }
  TD_ASSIGN_OR_RETURN(const std::string var, Var(value));
  const std::string out = NewVar(value + ".T");
  TD_RETURN_IF_ERROR(Append("transpose", {{var}}, {{"axis", std::vector<int64_t>{1, 0}}}, out));
  return out;
}

StatusOr<std::string> OnnxGraphReader::Part(const std::string& value, int64_t index) {
  const auto it = known_.find(value);
  if (it == known_.end() || it->second.tensor.dtype() != DType::kF32) {
    return Unimplemented("\"%s\" is computed by a node, but must be a constant [TD7015]", value);
  }
  const std::string part = absl::StrFormat("%s.%d", value, index);
  if (known_.contains(part)) return part;
  const Tensor& whole = it->second.tensor;
  const Shape shape(whole.shape().dims().subspan(1));
  TD_ASSIGN_OR_RETURN(const Tensor tensor, NewTensor(DType::kF32, shape));
  std::memcpy(tensor.data(), whole.span<float>().data() + index * shape.numel(), tensor.bytes());
  known_.emplace(part, Known{tensor, it->second.trained, it->second.uniform});
  return part;
}

StatusOr<std::string> OnnxGraphReader::Ones() {
  if (!ones_.empty()) return ones_;
  if (first_input_.empty())
    return Unimplemented("the model has no input, so its batch size is unknown [TD1214]");
  std::string x = first_input_;
  const auto append = [&](const char* type, AttrMap attrs) {
    const std::string out = NewVar(std::string("batch.") + type);
    const Status status = Append(type, {{x}}, std::move(attrs), out);
    x = out;
    return status;
  };
  if (const int rank = Desc(x).shape.rank(); rank > 1) {
    std::vector<int64_t> axes(static_cast<size_t>(rank - 1));
    std::iota(axes.begin(), axes.end(), 1);
    const std::vector<int64_t> zeros(axes.size(), 0), ones(axes.size(), 1);
    TD_RETURN_IF_ERROR(append("slice", {{"axes", axes}, {"starts", zeros}, {"ends", ones}}));
  }
  TD_RETURN_IF_ERROR(append("reshape", {{"shape", std::vector<int64_t>{-1, 1}}}));
  if (Desc(x).dtype != DType::kF32) {
    TD_RETURN_IF_ERROR(append("cast", {{"out_dtype", std::string("f32")}}));
  }
  TD_RETURN_IF_ERROR(append("scale", {{"scale", 0.0}, {"bias", 1.0}}));
  return ones_ = x;
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

}  // namespace tandem::onnx
