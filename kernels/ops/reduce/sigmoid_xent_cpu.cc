#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/formulas/sigmoid_xent.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t n;
};

Status CheckLabels(int64_t n, const int64_t* labels) {
  for (int64_t i = 0; i < n; ++i) {
    if (labels[i] == 0 || labels[i] == 1) continue;
    return InvalidArgument("Label[%d] is %d, expected 0 or 1 [TD2004]", i, labels[i]);
  }
  return OkStatus();
}

Status Run(State& s, const KernelArgs& args) {
  const auto* labels = static_cast<const int64_t*>(args.in[1]);
  TD_RETURN_IF_ERROR(CheckLabels(s.n, labels));
  const float* logits = InF32(args, 0);
  for (int64_t i = 0; i < s.n; ++i) {
    const SigmoidXent xent = SigmoidXent::Of(logits[i], labels[i] == 1);
    OutF32(args, 0)[i] = xent.sigmoid;
    OutF32(args, 1)[i] = xent.loss;
  }
  return OkStatus();
}

Status RunGrad(State& s, const KernelArgs& args) {
  const auto* labels = static_cast<const int64_t*>(args.in[1]);
  TD_RETURN_IF_ERROR(CheckLabels(s.n, labels));
  const float *sigmoid = InF32(args, 0), *g = InF32(args, 2);
  for (int64_t i = 0; i < s.n; ++i) {
    OutF32(args, 0)[i] = SigmoidXent::Grad(sigmoid[i], labels[i] == 1, g[i]);
  }
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_REQUIRE(view.in(1).shape.numel() == view.in(0).shape.numel());
  return MakeKernel<State, Body>({view.in(0).shape.numel()});
}

}  // namespace

constinit const KernelList kSigmoidXentCpu = {{"plain", Prepare<Run>}};
constinit const KernelList kSigmoidXentGradCpu = {{"plain", Prepare<RunGrad>}};

}  // namespace tandem::ops
