#include "trainer/onnx/export/graph_writer.h"

#include <cstring>
#include <functional>
#include <numeric>

#include "absl/strings/str_join.h"
#include "onnx/onnx.pb.h"

#include "common/base/require.h"

namespace tandem::onnx {
namespace {

struct AttrWriter {
  ::onnx::AttributeProto& out;
  void operator()(std::monostate) const {}
  void operator()(bool v) const { (*this)(int64_t{v}); }
  void operator()(int64_t v) const {
    out.set_type(::onnx::AttributeProto::INT);
    out.set_i(v);
  }
  void operator()(double v) const {
    out.set_type(::onnx::AttributeProto::FLOAT);
    out.set_f(static_cast<float>(v));
  }
  void operator()(const std::string& v) const {
    out.set_type(::onnx::AttributeProto::STRING);
    out.set_s(v);
  }
  void operator()(const std::vector<int64_t>& v) const {
    out.set_type(::onnx::AttributeProto::INTS);
    out.mutable_ints()->Assign(v.begin(), v.end());
  }
  void operator()(const std::vector<double>& v) const {
    out.set_type(::onnx::AttributeProto::FLOATS);
    out.mutable_floats()->Assign(v.begin(), v.end());
  }
};

std::string BytesOf(const Tensor& tensor) {
  return {static_cast<const char*>(tensor.data()), tensor.bytes()};
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

}  // namespace

int ElementTypeNumber(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ::onnx::TensorProto::FLOAT;
    case DType::kF16:
      return ::onnx::TensorProto::FLOAT16;
    case DType::kBF16:
      return ::onnx::TensorProto::BFLOAT16;
    case DType::kI32:
      return ::onnx::TensorProto::INT32;
    case DType::kI64:
      return ::onnx::TensorProto::INT64;
    case DType::kU8:
      return ::onnx::TensorProto::UINT8;
  }
  LOG(FATAL) << "no ONNX type for " << Name(dtype);
  return 0;
}

bool GraphWriter::IsWeight(const std::string& var) const {
  const graph::Var* found = program_.FindVar(var);
  return found->kind != graph::VarKind::kTemp && found->kind != graph::VarKind::kData;
}

StatusOr<const Tensor*> GraphWriter::Weight(const std::string& var) const {
  const auto it = tensors_.find(var);
  if (it == tensors_.end()) {
    return NotFound(
        "the checkpoint has no variable \"%s\"; rows of tables that exist only on pservers cannot "
        "be exported to ONNX",
        var);
  }
  const TensorDesc& want = program_.FindVar(var)->desc;
  if (it->second.desc() != want) {
    return FailedPrecondition(
        "variable \"%s\" is %s in the checkpoint, but %s in the program [TD2105]", var,
        ToString(it->second.desc()), ToString(want));
  }
  return &it->second;
}

std::string GraphWriter::Add(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                             std::string bytes) {
  ::onnx::TensorProto* out = graph_.add_initializer();
  out->set_name(name);
  out->set_data_type(ElementTypeNumber(dtype));
  out->mutable_dims()->Assign(dims.begin(), dims.end());
  out->set_raw_data(std::move(bytes));
  return name;
}

StatusOr<std::string> GraphWriter::Value(const std::string& var) {
  std::string& value = values_[{var, ""}];
  if (!value.empty()) return value;
  if (!IsWeight(var)) return value = var;
  TD_ASSIGN_OR_RETURN(const Tensor* tensor, Weight(var));
  return value = Add(var, tensor->dtype(), DimsOf(tensor->shape()), BytesOf(*tensor));
}

StatusOr<std::string> GraphWriter::Transposed(const std::string& var) {
  std::string& value = values_[{var, "T"}];
  if (!value.empty()) return value;
  TD_ASSIGN_OR_RETURN(const Tensor* tensor, Weight(var));
  const int64_t rows = tensor->shape()[0], columns = tensor->shape()[1];
  const size_t size = SizeOf(tensor->dtype());
  const auto* from = static_cast<const char*>(tensor->data());
  std::string bytes(tensor->bytes(), '\0');
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      std::memcpy(&bytes[static_cast<size_t>(j * rows + i) * size],
                  from + static_cast<size_t>(i * columns + j) * size, size);
    }
  }
  return value = Add(NewName(var + ".T"), tensor->dtype(), {columns, rows}, std::move(bytes));
}

StatusOr<std::string> GraphWriter::WithZeroRow(const std::string& var, int64_t row) {
  TD_REQUIRE(row >= 0);
  std::string& value = values_[{var, std::to_string(row)}];
  if (!value.empty()) return value;
  TD_ASSIGN_OR_RETURN(const Tensor* tensor, Weight(var));
  std::string bytes = BytesOf(*tensor);
  const size_t row_bytes = tensor->bytes() / static_cast<size_t>(tensor->shape()[0]);
  bytes.replace(static_cast<size_t>(row) * row_bytes, row_bytes, row_bytes, '\0');
  return value = Add(NewName(var + ".padded"), tensor->dtype(), DimsOf(tensor->shape()),
                     std::move(bytes));
}

void GraphWriter::Node(const char* type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const ops::AttrMap& attrs) {
  TD_REQUIRE(!outputs.empty());
  ::onnx::NodeProto* node = graph_.add_node();
  node->set_op_type(type);
  node->set_name(outputs[0]);
  for (const std::string& name : inputs) node->add_input(name);
  for (const std::string& name : outputs) node->add_output(name);
  for (const auto& [name, value] : attrs) {
    ::onnx::AttributeProto* attr = node->add_attribute();
    attr->set_name(name);
    std::visit(AttrWriter{*attr}, value);
  }
}

std::string GraphWriter::NewName(const std::string& base) {
  std::string name = base;
  while (program_.FindVar(name) != nullptr || !names_.insert(name).second) {
    name = base + "/" + std::to_string(numbers_++);
  }
  return name;
}

std::string GraphWriter::Temp(const char* type, const std::vector<std::string>& inputs,
                              const ops::AttrMap& attrs) {
  const std::string out = NewName(type);
  Node(type, inputs, {out}, attrs);
  return out;
}

std::string GraphWriter::Ints(const std::vector<int64_t>& values) {
  const std::string key = "ints/" + absl::StrJoin(values, ",");
  std::string& name = constants_[key];
  if (!name.empty()) return name;
  return name =
             Add(NewName(key), DType::kI64, {static_cast<int64_t>(values.size())}, BytesOf(values));
}

std::string GraphWriter::Float(double value) {
  return Floats(absl::StrFormat("float/%.9g", value), {}, {static_cast<float>(value)});
}

std::string GraphWriter::Floats(const std::string& key, const std::vector<int64_t>& dims,
                                const std::vector<float>& values) {
  TD_REQUIRE(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>()) ==
             static_cast<int64_t>(values.size()));
  std::string& name = constants_[key];
  return name.empty() ? name = Add(NewName(key), DType::kF32, dims, BytesOf(values)) : name;
}

}  // namespace tandem::onnx
