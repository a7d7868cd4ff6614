#include <cmath>
#include <limits>

#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

// Returns true if an element of type `dtype` can hold `value`. For integers, the fraction of
// `value` is ignored.
bool Holds(DType dtype, double value) {
  switch (dtype) {
    case DType::kI32:
      return value > -2147483649.0 && value < 2147483648.0;
    case DType::kI64:
      return value >= -0x1p63 && value < 0x1p63;
    case DType::kU8:
      return value > -1.0 && value < 256.0;
    default:  // every float type has infinities and NaN
      return !std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max();
  }
}

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  const StatusOr<DType> dtype = ParseDType(view.attr<std::string>("dtype"));
  if (!dtype.ok())
    return view.Error("attribute dtype is invalid: " + std::string(dtype.status().message()));
  if (*dtype == DType::kF16 || *dtype == DType::kBF16) {
    return view.Error("16-bit types are not implemented");
  }
  const auto value = view.attr<double>("value");
  if (!Holds(*dtype, value)) {
    return view.Error(
        absl::StrFormat("attribute value=%g is out of range for %s", value, Name(*dtype)));
  }
  TD_RETURN_IF_ERROR(NeedInts(view, "shape"));
  const StatusOr<Shape> shape = ParseShape(view.attr<std::vector<int64_t>>("shape"));
  if (!shape.ok())
    return view.Error("attribute shape is invalid: " + std::string(shape.status().message()));
  outputs[0] = {*dtype, *shape};
  return OkStatus();
}

}  // namespace

constinit const OpDef kFillConstant = {
    .type = "fill_constant",
    .doc = "Out[i] = value.",
    .inputs = {},
    .outputs = {{"Out"}},
    .attrs = {{"shape", {}, "dimensions of Out"},
              {"dtype", std::string_view("f32"), "element type of Out: f32, i32, i64 or u8"},
              {"value", 0.0, "what every element becomes"}},
    .infer = Infer,
    .cpu = &kFillConstantCpu,
};

}  // namespace tandem::ops
