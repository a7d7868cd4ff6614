#include "trainer/onnx/graph_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/tensor_reader.h"

namespace tandem::onnx {
namespace {

StatusOr<Tensor> Transposed(const Tensor& from, Device& host) {
  TD_REQUIRE(from.shape().rank() == 2 && from.dtype() == DType::kF32);
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

Status GraphReader::AddInput(const ::onnx::ValueInfoProto& input, const std::string& var) {
  const std::string where = "input \"" + input.name() + "\"";
  if (!input.type().has_tensor_type()) return Unimplemented("%s is not a tensor [TD7015]", where);
  const auto& type = input.type().tensor_type();
  const auto dtype = ElementTypeOf(type.elem_type());
  if (!dtype.ok()) return Annotate(dtype.status(), where);
  if (type.elem_type() == ::onnx::TensorProto::DOUBLE) {
    return Unimplemented(
        "%s has the element type DOUBLE, but programs compute in f32 [TD7015]; hint: export "
        "model.float() with float32 inputs",
        where);
  }
  std::vector<int64_t> dims;  // dimensions of the input, without the first one
  for (int i = 1; i < type.shape().dim_size(); ++i) {
    const int64_t size = type.shape().dim(i).dim_value();
    if (size <= 0) {
      return Unimplemented(
          "%s: dimension %d has no size, which is allowed only for dimension 0, the batch "
          "[TD1214]; hint: export the model with a fixed size for this dimension",
          where, i);
    }
    dims.push_back(size);
  }
  if (type.shape().dim_size() == 0) {
    return Unimplemented("%s is a scalar, expected a first dimension for the batch [TD1214]",
                         where);
  }
  const int64_t batch = std::max<int64_t>(0, type.shape().dim(0).dim_value());
  TD_RETURN_IF_ERROR(Annotate(program_.AddInput(var, *dtype, dims, batch), where));
  vars_[input.name()] = var;
  if (first_input_.empty()) first_input_ = var;
  return OkStatus();
}

void GraphReader::Bind(const std::string& value, const std::string& var) {
  TD_REQUIRE(!var.empty());
  vars_[value] = var;
}

StatusOr<std::string> GraphReader::Declare(const std::string& value, graph::VarKind kind,
                                           Tensor tensor) {
  if (tensor.dtype() != DType::kF32) {
    return Unimplemented(
        "input \"%s\" contains integers, but this operator accepts only floating-point numbers "
        "[TD7015]",
        value);
  }
  TD_REQUIRE(kind == graph::VarKind::kParam || kind == graph::VarKind::kState);
  const std::string name = program_.NewVar(value);
  if (untrained_.contains(name)) kind = graph::VarKind::kState;
  // The model supplies the values. The initialisation is for a training that does not use these
  // values.
  graph::Init init = {graph::Init::kConstant, 0.0f};
  if (tensor.shape().rank() >= 2) init = {graph::Init::kXavierUniform};
  TD_RETURN_IF_ERROR(
      program_.AddVar({.name = name, .kind = kind, .desc = tensor.desc(), .init = init}));
  tensors_[name] = std::move(tensor);
  const KnownValue* const known = known_.Get(value);
  if (known == nullptr || !known->uniform) vars_[value] = name;
  return name;
}

StatusOr<std::string> GraphReader::Transpose(const std::string& value, const std::string& var) {
  const std::string out = program_.NewVar(value + ".T");
  TD_RETURN_IF_ERROR(
      program_.Append("transpose", {{var}}, {{"axis", std::vector<int64_t>{1, 0}}}, out));
  return out;
}

StatusOr<std::string> GraphReader::Repeated(const std::string& value, const KnownValue& known) {
  const Shape shape = known.tensor.shape();
  TD_REQUIRE(known.batch >= 0 && known.batch < shape.rank());
  if (!known.slopes.empty() || known.tensor.dtype() != DType::kF32) {
    return Unimplemented(
        "\"%s\" has known numbers for each sample, but this operator accepts only floating-point "
        "numbers that a node computes [TD7015]",
        value);
  }
  const std::string one = value + ".one";
  known_.Add(one, known.tensor);
  TD_ASSIGN_OR_RETURN(const std::string state, Var(one));
  TD_ASSIGN_OR_RETURN(const std::string ones, Ones());
  const std::string row = program_.NewVar(value + ".row"), rows = program_.NewVar(value + ".rows"),
                    out = program_.NewVar(value);
  TD_RETURN_IF_ERROR(program_.Reshape(state, {1, shape.numel()}, row));
  TD_RETURN_IF_ERROR(program_.Append("fc", {{ones}, {row}, {}}, {}, rows));
  std::vector<int64_t> sizes(shape.dims().begin(), shape.dims().end()), order;
  sizes.erase(sizes.begin() + known.batch);
  sizes.insert(sizes.begin(), kBatch + 1);
  if (known.batch == 0) {
    TD_RETURN_IF_ERROR(program_.Reshape(rows, sizes, out));
    return vars_[value] = out;
  }
  for (int64_t d = 0; d < shape.rank(); ++d) {
    order.push_back(d == known.batch ? 0 : d < known.batch ? d + 1 : d);
  }
  const std::string first = program_.NewVar(value + ".first");
  TD_RETURN_IF_ERROR(program_.Reshape(rows, sizes, first));
  TD_RETURN_IF_ERROR(program_.Append("transpose", {{first}}, {{"axis", order}}, out));
  return vars_[value] = out;
}

StatusOr<std::string> GraphReader::AddIds(const std::string& base, const Tensor& ids) {
  TD_REQUIRE(ids.dtype() == DType::kI64);
  const std::string name = program_.NewVar(base);
  TD_RETURN_IF_ERROR(
      program_.AddVar({.name = name, .kind = graph::VarKind::kState, .desc = ids.desc()}));
  tensors_[name] = ids;
  return name;
}

void GraphReader::AddTransposed(const std::string& value, const std::string& of) {
  turned_[value] = of;
}

StatusOr<std::string> GraphReader::Var(const std::string& value) {
  if (const auto it = turned_.find(value); it != turned_.end()) return Matrix(it->second, true);
  TD_REQUIRE(!transposed_.contains(value) || vars_.contains(value));
  if (transposed_.contains(value)) return Transpose(value, vars_[value]);
  if (const auto it = vars_.find(value); it != vars_.end()) return it->second;
  const KnownValue* const known = known_.Get(value);
  if (known == nullptr)
    return InvalidArgument(
        "input \"%s\" is not the output of an earlier node and not an initializer [TD2108]", value);
  if (known->batch >= 0) return Repeated(value, *known);
  return Declare(value, known->trained ? graph::VarKind::kParam : graph::VarKind::kState,
                 known->tensor);
}

StatusOr<std::string> GraphReader::State(const std::string& value) {
  const KnownValue* const known = known_.Get(value);
  if (known == nullptr || vars_.contains(value)) {
    return Unimplemented(
        "\"%s\" is a running statistic, but another node computes or reads this statistic "
        "[TD7015]; hint: export the model after model.eval()",
        value);
  }
  return Declare(value, graph::VarKind::kState, known->tensor);
}

StatusOr<std::string> GraphReader::Matrix(const std::string& value, bool transposed) {
  if (!transposed) return Var(value);
  const KnownValue* const known = known_.Get(value);
  const bool is_matrix = known != nullptr && known->batch < 0 &&
                         known->tensor.shape().rank() == 2 && known->tensor.dtype() == DType::kF32;
  if (is_matrix && transposed_.contains(value)) return vars_[value];
  if (is_matrix && !vars_.contains(value)) {
    TD_ASSIGN_OR_RETURN(Tensor tensor, Transposed(known->tensor, known_.host()));
    const graph::VarKind kind = known->trained ? graph::VarKind::kParam : graph::VarKind::kState;
    TD_ASSIGN_OR_RETURN(const std::string var, Declare(value, kind, std::move(tensor)));
    if (!known->uniform) transposed_.insert(value);
    return var;
  }
  TD_ASSIGN_OR_RETURN(const std::string var, Var(value));
  return Transpose(value, var);
}

StatusOr<std::string> GraphReader::Ones() {
  if (!ones_.empty()) return ones_;
  if (first_input_.empty())
    return Unimplemented(
        "the model has no input, so the batch size of the model is unknown [TD1214]");
  std::string x = first_input_;
  const auto append = [&](const char* type, ops::AttrMap attrs) {
    const std::string out = program_.NewVar(std::string("batch.") + type);
    Status status = program_.Append(type, {{x}}, std::move(attrs), out);
    x = out;
    return status;
  };
  if (const int rank = program_.Desc(x).shape.rank(); rank > 1) {
    std::vector<int64_t> axes(static_cast<size_t>(rank - 1));
    std::iota(axes.begin(), axes.end(), 1);
    const std::vector<int64_t> zeros(axes.size(), 0), ones(axes.size(), 1);
    TD_RETURN_IF_ERROR(append("slice", {{"axes", axes}, {"starts", zeros}, {"ends", ones}}));
  }
  TD_RETURN_IF_ERROR(append("reshape", {{"shape", std::vector<int64_t>{-1, 1}}}));
  if (program_.Desc(x).dtype != DType::kF32) {
    TD_RETURN_IF_ERROR(append("cast", {{"out_dtype", std::string("f32")}}));
  }
  TD_RETURN_IF_ERROR(append("scale", {{"scale", 0.0}, {"bias", 1.0}}));
  return ones_ = x;
}

}  // namespace tandem::onnx
