#include <algorithm>
#include <cmath>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

struct State {
  double first, most;
};

Status Run(State& s, const KernelArgs& args) {
  const double loss = *InF32(args, 0), rate = *InF32(args, 1);
  double base_loss = *InF32(args, 2), base_rate = *InF32(args, 3), steps = *InF32(args, 4);
  const bool usable = loss > 0 && rate > 0 && std::isfinite(loss) && std::isfinite(rate);
  if (usable && (base_loss == 0 || base_rate == 0)) {
    base_loss = loss;
    base_rate = rate;
  }
  const double next = std::ceil(std::sqrt(base_rate * loss / (rate * base_loss) * s.first));
  if (!std::isnan(next)) steps = std::clamp(next, 1.0, s.most);
  *OutF32(args, 0) = static_cast<float>(base_loss);
  *OutF32(args, 1) = static_cast<float>(base_rate);
  *OutF32(args, 2) = static_cast<float>(steps);
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Run>({static_cast<double>(view.attr<int64_t>("init_k_steps")),
                                 static_cast<double>(view.attr<int64_t>("k_steps_max"))});
}

}  // namespace

std::vector<KernelImpl> AdaptiveStepsCpu() { return {{"plain", Prepare}}; }

}  // namespace tandem
