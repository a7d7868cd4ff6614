#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/formulas/regression_loss.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t n;
  float delta;  // used only by huber_loss
};

template <typename Loss>
Status Run(State& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *y = InF32(args, 1);
  float* out = OutF32(args, 0);
  for (int64_t i = 0; i < s.n; ++i) out[i] = Loss::Of(x[i], y[i], s.delta);
  return OkStatus();
}

template <typename Loss>
Status RunGrad(State& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *y = InF32(args, 1), *g = InF32(args, 2);
  float* out = OutF32(args, 0);
  for (int64_t i = 0; i < s.n; ++i) out[i] = Loss::Grad(x[i], y[i], g[i], s.delta);
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&), bool delta = false>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_REQUIRE(view.in(1).shape == view.in(0).shape);
  float limit = 0;
  if constexpr (delta) limit = AttrF32(view, "delta");
  return MakeKernel<State, Body>({view.in(0).shape.numel(), limit});
}

}  // namespace

constinit const KernelList kSquareErrorCostCpu = {{"plain", Prepare<Run<SquareErrorLoss>>}};
constinit const KernelList kSquareErrorCostGradCpu = {{"plain", Prepare<RunGrad<SquareErrorLoss>>}};
constinit const KernelList kHuberLossCpu = {{"plain", Prepare<Run<HuberLoss>, true>}};
constinit const KernelList kHuberLossGradCpu = {{"plain", Prepare<RunGrad<HuberLoss>, true>}};
constinit const KernelList kL1LossCpu = {{"plain", Prepare<Run<AbsoluteErrorLoss>>}};
constinit const KernelList kL1LossGradCpu = {{"plain", Prepare<RunGrad<AbsoluteErrorLoss>>}};

}  // namespace tandem::ops
