// Definitions of the operators of loss scaling for 16-bit gradients. Source: Micikevicius et al.,
// "Mixed Precision Training", ICLR 2018, section 3.2. The factor changes as in Paddle 2.0's
// update_loss_scaling. In contrast to Paddle, a step with an overflow is skipped completely
// (Op::run_if). Therefore the gradients of such a step need not be set to zero.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status InferCheck(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  TD_RETURN_IF_ERROR(NeedOne(view, 0, "Scale"));
  if (view.in_count() < 2 || !view.has_in(1))
    return view.Error("input slot X is empty, expected at least one variable");
  if (outputs.size() != view.in_count())
    return view.Error("the number of outputs Out must equal the number of inputs X");
  outputs[0] = view.in(0);
  for (size_t i = 1; i < outputs.size(); ++i) outputs[i] = view.in(i);
  return OkStatus();
}

Status InferUpdate(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  const char* names[] = {"AllFinite", "Scale", "GoodSteps", "BadSteps"};
  for (size_t i = 0; i < 4; ++i) TD_RETURN_IF_ERROR(NeedOne(view, i, names[i]));
  for (const char* attr : {"incr_every_n_steps", "decr_every_n_nan_or_inf"}) {
    // Steps are counted in f32, which cannot count beyond 2^24.
    const auto n = view.attr<int64_t>(attr);
    if (n < 1 || n > (1 << 24)) {
      return view.Error(absl::StrFormat("%s=%d must be from 1 to 16777216", attr, n));
    }
  }
  const double incr = view.attr<double>("incr_ratio"), decr = view.attr<double>("decr_ratio");
  if (!(incr >= 1)) return view.Error(absl::StrFormat("incr_ratio=%g must be at least 1", incr));
  if (!(decr > 0 && decr <= 1)) {
    return view.Error(absl::StrFormat("decr_ratio=%g must be above 0 and at most 1", decr));
  }
  for (size_t i = 0; i < 3; ++i) outputs[i] = view.in(1);
  return OkStatus();
}

}  // namespace

constinit const OpDef kCheckFiniteAndUnscale = {
    .type = "check_finite_and_unscale",
    .doc =
        "AllFinite = 1 when no element of any X is infinite or NaN, else 0; Out = X * (1 / Scale).",
    .inputs = {{"Scale"}, {"X", Arity::kMany}},
    .outputs = {{"AllFinite"}, {"Out", Arity::kMany}},
    .infer = InferCheck,
    .cpu = &kCheckFiniteAndUnscaleCpu,
    .inplace = {{1, 1}},
};

constinit const OpDef kUpdateLossScaling = {
    .type = "update_loss_scaling",
    .doc =
        "With AllFinite: BadSteps = 0, GoodSteps + 1; at incr_every_n_steps it is 0 and Scale is "
        "multiplied by incr_ratio, unless that is infinite. Else: GoodSteps = 0, BadSteps + 1; at "
        "decr_every_n_nan_or_inf it is 0 and Scale is multiplied by decr_ratio, but stays at least "
        "1.",
    .inputs = {{"AllFinite"}, {"Scale"}, {"GoodSteps"}, {"BadSteps"}},
    .outputs = {{"ScaleOut"}, {"GoodStepsOut"}, {"BadStepsOut"}},
    .attrs = {{"incr_every_n_steps", int64_t{1000}, "finite steps in a row before it grows"},
              {"decr_every_n_nan_or_inf", int64_t{2}, "overflows in a row before it shrinks"},
              {"incr_ratio", 2.0, "growth"},
              {"decr_ratio", 0.8, "shrinking"}},
    .infer = InferUpdate,
    .cpu = &kUpdateLossScalingCpu,
    .inplace = {{0, 1}, {1, 2}, {2, 3}},
};

}  // namespace tandem::ops
