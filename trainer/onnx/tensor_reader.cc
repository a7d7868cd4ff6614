#include "trainer/onnx/tensor_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "onnx/onnx.pb.h"

namespace tandem::onnx {
namespace {

template <typename T, typename Field>
bool CopyField(const Field& field, const Tensor& out) {
  if (field.size() != out.numel()) return false;
  std::copy(field.begin(), field.end(), out.span<T>().begin());
  return true;
}

// Copies the numbers of the message to `out`. Returns false if the message and `out` differ in the
// number of elements.
bool CopyNumbers(const ::onnx::TensorProto& proto, const Tensor& out) {
  if (proto.has_raw_data()) {
    if (proto.raw_data().size() != out.bytes()) return false;
    std::memcpy(out.data(), proto.raw_data().data(), out.bytes());
    return true;
  }
  if (out.dtype() == DType::kF32) return CopyField<float>(proto.float_data(), out);
  if (out.dtype() == DType::kI64) return CopyField<int64_t>(proto.int64_data(), out);
  return CopyField<int32_t>(proto.int32_data(), out);
}

// Copies truth values, one byte each, as the numbers 0 and 1. Returns false if `bytes` and `out`
// differ in the number of elements.
bool CopyTruths(std::string_view bytes, const Tensor& out) {
  if (static_cast<int64_t>(bytes.size()) != out.numel()) return false;
  std::transform(bytes.begin(), bytes.end(), out.span<float>().begin(),
                 [](char byte) { return byte != 0 ? 1.0f : 0.0f; });
  return true;
}

// Copies 64-bit numbers to *wide. Returns false if the message has not `count` of them.
bool CopyDoubles(const ::onnx::TensorProto& proto, size_t count, std::vector<double>* wide) {
  if (!proto.has_raw_data()) {
    wide->assign(proto.double_data().begin(), proto.double_data().end());
    return wide->size() == count;
  }
  if (proto.raw_data().size() != count * sizeof(double)) return false;
  wide->resize(count);
  if (count > 0) std::memcpy(wide->data(), proto.raw_data().data(), proto.raw_data().size());
  return true;
}

size_t BytesPerElement(int type, DType dtype) {
  if (type == ::onnx::TensorProto::BOOL) return 1;
  return type == ::onnx::TensorProto::DOUBLE ? sizeof(double) : SizeOf(dtype);
}

std::string TruthsOf(const ::onnx::TensorProto& proto) {
  if (proto.has_raw_data()) return proto.raw_data();
  std::string bytes;
  for (const int32_t value : proto.int32_data()) bytes.push_back(value != 0 ? 1 : 0);
  return bytes;
}

}  // namespace

StatusOr<DType> ElementTypeOf(int type) {
  switch (type) {
    case ::onnx::TensorProto::FLOAT:
    case ::onnx::TensorProto::BOOL:
    case ::onnx::TensorProto::DOUBLE:
      return DType::kF32;
    case ::onnx::TensorProto::INT64:
      return DType::kI64;
    case ::onnx::TensorProto::INT32:
      return DType::kI32;
    default:
      break;
  }
  const bool named = ::onnx::TensorProto::DataType_IsValid(type);
  const auto value = static_cast<::onnx::TensorProto::DataType>(type);
  return Unimplemented(
      "element type %s is not supported, expected FLOAT, DOUBLE, INT64, INT32 or BOOL [TD7015]",
      named ? ::onnx::TensorProto::DataType_Name(value) : std::to_string(type));
}

StatusOr<Tensor> ReadTensor(const ::onnx::TensorProto& proto, ExternalData& external, Device& host,
                            std::vector<double>* wide) {
  wide->clear();
  TD_ASSIGN_OR_RETURN(const DType dtype, ElementTypeOf(proto.data_type()));
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  TD_ASSIGN_OR_RETURN(const Shape shape, ParseShape(dims));
  const bool truths = proto.data_type() == ::onnx::TensorProto::BOOL;
  const bool doubles = proto.data_type() == ::onnx::TensorProto::DOUBLE;
  const auto count = static_cast<size_t>(shape.numel());
  const uint64_t bytes = uint64_t{count} * BytesPerElement(proto.data_type(), dtype);
  const bool beside =
      proto.data_location() == ::onnx::TensorProto::EXTERNAL || proto.external_data_size() > 0;
  std::optional<ExternalData::Range> range;
  if (beside) {
    TD_ASSIGN_OR_RETURN(range, external.Find(proto, bytes));
  } else if (bytes > proto.ByteSizeLong() * 8) {
    return DataLoss("a tensor of shape %s needs %d bytes, but the file has fewer [TD2108]",
                    ToString(shape), bytes);
  }
  TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({dtype, shape}, host));
  bool whole = true;
  if (truths) {
    std::string read(beside ? bytes : 0, '\0');
    if (beside) TD_RETURN_IF_ERROR(range->ReadTo(read));
    whole = CopyTruths(beside ? read : TruthsOf(proto), tensor);
  } else if (doubles) {
    if (beside) {
      wide->resize(count);
      TD_RETURN_IF_ERROR(range->ReadTo({reinterpret_cast<char*>(wide->data()), bytes}));
    } else {
      whole = CopyDoubles(proto, count, wide);
    }
  } else if (beside) {
    TD_RETURN_IF_ERROR(range->ReadTo({static_cast<char*>(tensor.data()), tensor.bytes()}));
  } else {
    whole = CopyNumbers(proto, tensor);
  }
  if (!whole)
    return DataLoss("a tensor of shape %s needs %d bytes, but the file has fewer [TD2108]",
                    ToString(shape), bytes);
  if (doubles) {
    TD_RETURN_IF_ERROR(CheckRange(*wide));
    std::transform(wide->begin(), wide->end(), tensor.span<float>().begin(),
                   [](double number) { return static_cast<float>(number); });
  }
  return tensor;
}

Status CheckRange(const std::vector<double>& numbers) {
  const auto far = std::find_if(numbers.begin(), numbers.end(), [](double number) {
    return std::isfinite(number) && !std::isfinite(static_cast<float>(number));
  });
  if (far == numbers.end()) return OkStatus();
  return Unimplemented(
      "the number %g of type DOUBLE is beyond the range of f32, in which programs compute "
      "[TD7015]; hint: use a number of at most 3.4e38 in the model",
      *far);
}

}  // namespace tandem::onnx
