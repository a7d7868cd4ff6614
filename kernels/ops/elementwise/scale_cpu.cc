#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {
namespace {

struct State {
  const Loops& loops;
  int64_t n;
  float scale, bias;
};

Status Run(State& s, const KernelArgs& args) {
  s.loops.scale(InF32(args, 0), s.scale, s.bias, OutF32(args, 0), s.n);
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_REQUIRE(view.out(0).shape.numel() == view.in(0).shape.numel());
  return MakeKernel<State, Run>({BestLoops(), view.in(0).shape.numel(),
                                 static_cast<float>(view.attr<double>("scale")),
                                 static_cast<float>(view.attr<double>("bias"))});
}

}  // namespace

constinit const KernelList kScaleCpu = {{"vector", OrWidened<Prepare>}};

}  // namespace tandem::ops
