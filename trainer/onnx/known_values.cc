#include "trainer/onnx/known_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "onnx/onnx.pb.h"
#include "trainer/onnx/tensor_reader.h"

namespace tandem::onnx {
namespace {

constexpr size_t kListMax = 4096;
// Numbers of at least this size mask values: the sum with such a number does not depend on the
// other summand.
constexpr float kMaskMin = 1e9f;

// Returns whether the tensor contains an infinity, a NaN, or a number of at least kMaskMin.
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

}  // namespace

Status KnownValues::AddConstant(const std::string& value, const ::onnx::TensorProto& proto,
                                bool trained) {
  std::vector<double> wide;
  auto tensor = ReadTensor(proto, external_, host_, &wide);
  if (!tensor.ok()) return Annotate(tensor.status(), "tensor \"" + value + "\"");
  // A single number of type DOUBLE is a factor, as in PyTorch's attention.
  const bool doubles = proto.data_type() == ::onnx::TensorProto::DOUBLE && tensor->numel() > 1;
  trained =
      trained && (doubles || proto.data_type() == ::onnx::TensorProto::FLOAT) && !IsMask(*tensor);
  if (trained) wide.clear();
  const bool uniform = trained && IsUniform(*tensor);
  TD_REQUIRE(!trained || tensor->dtype() == DType::kF32);
  values_.insert_or_assign(
      value, KnownValue{*std::move(tensor), trained, uniform, -1, {}, std::move(wide)});
  return OkStatus();
}

void KnownValues::Add(const std::string& value, Tensor tensor) {
  values_.insert_or_assign(
      value, KnownValue{std::move(tensor), /*trained=*/false, /*uniform=*/false, -1, {}, {}});
}

Status KnownValues::AddInts(const std::string& value, const std::vector<int64_t>& ints) {
  if (ints.size() > kListMax)
    return Unimplemented(
        "the list of sizes has %d entries, which is more than this program supports [TD7015]",
        ints.size());
  const Shape shape = {static_cast<int64_t>(ints.size())};
  TD_ASSIGN_OR_RETURN(Tensor tensor, NewTensor(DType::kI64, shape));
  std::copy(ints.begin(), ints.end(), tensor.span<int64_t>().begin());
  Add(value, std::move(tensor));
  return OkStatus();
}

const KnownValue* KnownValues::Get(const std::string& value) const {
  const auto it = values_.find(value);
  return it == values_.end() ? nullptr : &it->second;
}

const Tensor* KnownValues::Find(const std::string& value) const {
  const KnownValue* const known = Get(value);
  return known == nullptr || known->batch >= 0 ? nullptr : &known->tensor;
}

const float* KnownValues::Scalar(const std::string& value) const {
  const KnownValue* const known = Get(value);
  if (known == nullptr || known->batch >= 0) return nullptr;
  const Tensor& tensor = known->tensor;
  const bool one = tensor.dtype() == DType::kF32 && tensor.numel() == 1 && !known->trained;
  return one ? tensor.span<float>().data() : nullptr;
}

const Tensor* KnownValues::Untrained(const std::string& value) const {
  const KnownValue* const known = Get(value);
  if (known == nullptr || known->batch >= 0) return nullptr;
  return known->trained ? nullptr : &known->tensor;
}

StatusOr<std::string> KnownValues::AddPart(const std::string& value, int64_t index) {
  const KnownValue* const known = Get(value);
  if (known == nullptr || known->batch >= 0 || known->tensor.dtype() != DType::kF32) {
    return Unimplemented("\"%s\" is computed by a node, but must be a constant [TD7015]", value);
  }
  const std::string part = absl::StrFormat("%s.%d", value, index);
  if (values_.contains(part)) return part;
  const Tensor& whole = known->tensor;
  TD_REQUIRE(whole.shape().rank() > 0 && index >= 0 && index < whole.shape()[0]);
  const Shape shape(whole.shape().dims().subspan(1));
  TD_ASSIGN_OR_RETURN(const Tensor tensor, NewTensor(DType::kF32, shape));
  std::memcpy(tensor.data(), whole.span<float>().data() + index * shape.numel(), tensor.bytes());
  values_.emplace(part, KnownValue{tensor, known->trained, known->uniform, -1, {}, {}});
  return part;
}

Status KnownValues::AddTable(const std::string& value, const KnownTable& table) {
  TD_REQUIRE(static_cast<int64_t>(table.numbers.size()) == table.shape.numel());
  const DType dtype = table.whole ? DType::kI64 : DType::kF32;
  TD_ASSIGN_OR_RETURN(const Tensor tensor, NewTensor(dtype, table.shape));
  KnownValue known{tensor, /*trained=*/false, /*uniform=*/false, table.batch, {}, {}};
  for (size_t i = 0; i < table.numbers.size(); ++i) {
    const KnownNumber& number = table.numbers[i];
    if (table.whole) tensor.span<int64_t>()[i] = number.whole;
    if (!table.whole) tensor.span<float>()[i] = static_cast<float>(number.number);
    if (table.wide) known.wide.push_back(number.number);
    if (number.slope == 0) continue;
    known.slopes.resize(table.numbers.size());
    known.slopes[i] = number.slope;
  }
  TD_RETURN_IF_ERROR(CheckRange(known.wide));
  values_.insert_or_assign(value, std::move(known));
  return OkStatus();
}

std::optional<KnownTable> KnownValues::Table(const std::string& value, int64_t most) const {
  const KnownValue* const known = Get(value);
  if (known == nullptr || known->trained) return std::nullopt;
  const Tensor& tensor = known->tensor;
  if (tensor.numel() > most) return std::nullopt;
  KnownTable table{.whole = tensor.dtype() != DType::kF32,
                   .wide = !known->wide.empty(),
                   .shape = tensor.shape(),
                   .batch = known->batch,
                   .numbers = {}};
  table.numbers.resize(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < table.numbers.size(); ++i) {
    KnownNumber& number = table.numbers[i];
    if (tensor.dtype() == DType::kF32) number.number = tensor.span<float>()[i];
    if (table.wide) number.number = known->wide[i];
    if (tensor.dtype() == DType::kI64) number.whole = tensor.span<int64_t>()[i];
    if (tensor.dtype() == DType::kI32) number.whole = tensor.span<int32_t>()[i];
    if (!known->slopes.empty()) number.slope = known->slopes[i];
  }
  return table;
}

StatusOr<Tensor> KnownValues::NewTensor(DType dtype, const Shape& shape) const {
  return Tensor::Make({dtype, shape}, host_);
}

}  // namespace tandem::onnx
