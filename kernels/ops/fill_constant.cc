#include "kernels/ops/infer.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  const StatusOr<DType> dtype = ParseDType(view.attr<std::string>("dtype"));
  if (!dtype.ok()) return view.Error("dtype: " + std::string(dtype.status().message()));
  if (*dtype == DType::kF16 || *dtype == DType::kBF16) {
    return view.Error("16-bit floats are not built yet");
  }
  const StatusOr<Shape> shape = ParseShape(view.attr<std::vector<int64_t>>("shape"));
  if (!shape.ok()) return view.Error("shape: " + std::string(shape.status().message()));
  outputs[0] = {*dtype, *shape};
  return OkStatus();
}

}  // namespace

const OpDef kFillConstant = {
    .type = "fill_constant",
    .doc = "Out[i] = value.",
    .inputs = {},
    .outputs = {{"Out"}},
    .attrs = {{"shape", {}, "dimensions of Out"},
              {"dtype", std::string("f32"), "element type of Out: f32, i32, i64 or u8"},
              {"value", 0.0, "what every element becomes"}},
    .infer = Infer,
    .cpu = FillConstantCpu(),
};

}  // namespace tandem
