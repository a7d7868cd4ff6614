#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  const StatusOr<DType> dtype = ParseDType(view.attr<std::string>("out_dtype"));
  if (!dtype.ok())
    return view.Error("attribute out_dtype is invalid: " + std::string(dtype.status().message()));
  outputs[0] = {*dtype, view.in(0).shape};
  return OkStatus();
}

void Grad(GradContext& ctx) {
  const std::string g = ctx.OutGrad(0);
  const std::string dx = g.empty() ? "" : ctx.InGrad(0);
  if (!dx.empty()) ctx.Append("cast_grad", {{ctx.In(0)}, {g}}, {{dx}}, {});
}

Status InferGrad(const OpView& view, std::span<TensorDesc> outputs) {
  if (view.in(0).shape != view.in(1).shape) {
    return view.Error("inputs X and Out@GRAD must have the same shape");
  }
  outputs[0] = view.in(0);
  return OkStatus();
}

}  // namespace

constinit const OpDef kCast = {
    .type = "cast",
    .doc =
        "X in another element type: floats are rounded to nearest even; integers take the whole "
        "part, within their limits, and 0 for NaN.",
    .inputs = {{"X"}},
    .outputs = {{"Out"}},
    .attrs = {{"out_dtype", std::string_view("f32"), "f32, f16, bf16, i32, i64 or u8"}},
    .infer = Infer,
    .grad = Grad,
    .cpu = &kCastCpu,
};

constinit const OpDef kCastGrad = {
    .type = "cast_grad",
    .doc = "Out@GRAD in the type of X. Of X the type alone is used.",
    .inputs = {{"X", Arity::kOne, true}, {"Out@GRAD"}},
    .outputs = {{"X@GRAD"}},
    .infer = InferGrad,
    .cpu = &kCastGradCpu,
};

}  // namespace tandem::ops
