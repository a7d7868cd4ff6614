// CUDA kernels of loss scaling and of other states with one element. Their operators are defined in
// loss_scaling.cc, every_nth.cc and adaptive_steps.cc.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/formulas/step_state.h"

namespace tandem::ops {
namespace {

struct CheckState {
  std::vector<int64_t> sizes;
};

// Unscales the gradients and checks that they are finite, with one launch per tensor. A thread that
// finds an element that is not finite sets AllFinite to 0.
Status RunCheck(CheckState& s, const KernelArgs& args) {
  const float* scale = In<float>(args, 0);
  float* finite = Out<float>(args, 0);
  TD_RETURN_IF_ERROR(ForEach(args, 1, [=] __device__(int64_t) { *finite = 1.0f; }));
  for (size_t t = 0; t < s.sizes.size(); ++t) {
    const int at = static_cast<int>(t) + 1;
    TD_RETURN_IF_ERROR((Map<float, 1>(args, {In<float>(args, at)}, Out<float>(args, at), s.sizes[t],
                                      [=] __device__(const float* v) {
                                        if (!isfinite(v[0])) *finite = 0.0f;
                                        return v[0] * (1.0f / *scale) + 0.0f;
                                      })));
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareCheck(const OpView& view, const PrepareContext&) {
  CheckState state;
  for (size_t i = 1; i < view.in_count(); ++i) state.sizes.push_back(view.in(i).shape.numel());
  return MakeKernel<CheckState, RunCheck>(std::move(state));
}

Status RunUpdate(LossScalingRule& s, const KernelArgs& args) {
  const float *finite = In<float>(args, 0), *scale = In<float>(args, 1);
  const float *good = In<float>(args, 2), *bad = In<float>(args, 3);
  float *scale_out = Out<float>(args, 0), *good_out = Out<float>(args, 1);
  float* bad_out = Out<float>(args, 2);
  const LossScalingRule rule = s;
  return ForEach(args, 1, [=] __device__(int64_t) {
    const LossScaling next = rule.Next(*finite != 0.0f, {*scale, *good, *bad});
    *scale_out = next.scale;
    *good_out = next.good;
    *bad_out = next.bad;
  });
}

StatusOr<Kernel> PrepareUpdate(const OpView& view, const PrepareContext&) {
  return MakeKernel<LossScalingRule, RunUpdate>(LossScalingRuleOf(view));
}

struct EveryNthState {
  float n;
};

// Counts a step. Input N, if present, replaces the attribute n.
Status RunEveryNth(EveryNthState& s, const KernelArgs& args) {
  const float *before = In<float>(args, 0), *given = In<float>(args, 1), n = s.n;
  float *counter = Out<float>(args, 0), *due = Out<float>(args, 1);
  return ForEach(args, 1, [=] __device__(int64_t) {
    const EveryNth next = EveryNth::Next(*before, given == nullptr ? n : *given);
    *counter = next.counter;
    *due = next.due ? 1.0f : 0.0f;
  });
}

StatusOr<Kernel> PrepareEveryNth(const OpView& view, const PrepareContext&) {
  return MakeKernel<EveryNthState, RunEveryNth>({static_cast<float>(view.attr<int64_t>("n"))});
}

Status RunAdaptiveSteps(AdaptiveStepsRule& s, const KernelArgs& args) {
  const float *loss = In<float>(args, 0), *rate = In<float>(args, 1);
  const float *base_loss = In<float>(args, 2), *base_rate = In<float>(args, 3);
  const float* steps = In<float>(args, 4);
  float *base_loss_out = Out<float>(args, 0), *base_rate_out = Out<float>(args, 1);
  float* steps_out = Out<float>(args, 2);
  const AdaptiveStepsRule rule = s;
  return ForEach(args, 1, [=] __device__(int64_t) {
    const AdaptiveSteps next = rule.Next(*loss, *rate, {*base_loss, *base_rate, *steps});
    *base_loss_out = static_cast<float>(next.base_loss);
    *base_rate_out = static_cast<float>(next.base_rate);
    *steps_out = static_cast<float>(next.steps);
  });
}

StatusOr<Kernel> PrepareAdaptiveSteps(const OpView& view, const PrepareContext&) {
  return MakeKernel<AdaptiveStepsRule, RunAdaptiveSteps>(AdaptiveStepsRuleOf(view));
}

}  // namespace

std::vector<KernelRegistration> LossScalingCudaRows() {
  return {{"adaptive_steps", {{"cuda", PrepareAdaptiveSteps}}},
          {"check_finite_and_unscale", {{"cuda", PrepareCheck}}},
          {"every_nth", {{"cuda", PrepareEveryNth}}},
          {"update_loss_scaling", {{"cuda", PrepareUpdate}}}};
}

}  // namespace tandem::ops
