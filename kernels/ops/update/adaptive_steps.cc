// Definition of adaptive_steps, which computes the number of local steps before the next average of
// the parameters (adaptive LocalSGD). Source: Wang and Joshi, "Adaptive Communication Strategies to
// Achieve the Best Error-Runtime Trade-off in Local-Update SGD", SysML 2019, section 4. Bounds and
// rounding are those of Paddle 2.0's adaptive_localsgd.
#include "kernels/ops/core/infer.h"
#include "kernels/ops/core/op_defs.h"

namespace tandem::ops {
namespace {

Status Infer(const OpView& view, std::span<TensorDesc> outputs) {
  TD_RETURN_IF_ERROR(NeedF32(view));
  const char* names[] = {"Loss", "LearningRate", "BaseLoss", "BaseLearningRate", "Steps"};
  for (size_t i = 0; i < 5; ++i) TD_RETURN_IF_ERROR(NeedOne(view, i, names[i]));
  const auto first = view.attr<int64_t>("init_k_steps"), most = view.attr<int64_t>("k_steps_max");
  // The number of steps is an f32, which cannot count beyond 2^24.
  if (first < 1 || first > most || most > (1 << 24)) {
    return view.Error(absl::StrFormat(
        "init_k_steps=%d must be from 1 to k_steps_max=%d, which must be at most 2^24", first,
        most));
  }
  for (size_t i = 0; i < 3; ++i) outputs[i] = view.in(0);
  return OkStatus();
}

}  // namespace

constinit const OpDef kAdaptiveSteps = {
    .type = "adaptive_steps",
    .doc =
        "StepsOut = sqrt(BaseLearningRate Loss / (LearningRate BaseLoss) init_k_steps), rounded up "
        "and cut to [1, k_steps_max]; Steps where that is no number. A base of 0 becomes Loss and "
        "LearningRate first, once both are positive and finite.",
    .inputs = {{"Loss"}, {"LearningRate"}, {"BaseLoss"}, {"BaseLearningRate"}, {"Steps"}},
    .outputs = {{"BaseLossOut"}, {"BaseLearningRateOut"}, {"StepsOut"}},
    .attrs = {{"init_k_steps", int64_t{1}, "what the base stands for"},
              {"k_steps_max", int64_t{16}, "most steps"}},
    .infer = Infer,
    .cpu = &kAdaptiveStepsCpu,
    .inplace = {{0, 2}, {1, 3}, {2, 4}},
};

}  // namespace tandem::ops
