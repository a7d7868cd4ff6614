#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/formulas/step_state.h"

namespace tandem::ops {
namespace {

struct State {
  float n;
  bool given;  // true: n is read from input N
};

Status Run(State& s, const KernelArgs& args) {
  const EveryNth next = EveryNth::Next(*InF32(args, 0), s.given ? *InF32(args, 1) : s.n);
  *OutF32(args, 0) = next.counter;
  *OutF32(args, 1) = next.due ? 1.0f : 0.0f;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Run>({static_cast<float>(view.attr<int64_t>("n")), view.has_in(1)});
}

}  // namespace

constinit const KernelList kEveryNthCpu = {{"plain", Prepare}};

}  // namespace tandem::ops
