#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t n;
};

// Computes the mean. Elements are added in 8 lanes of f64, then the lanes are added in order.
Status Run(State& s, const KernelArgs& args) {
  constexpr int64_t kLanes = 8;
  const float* x = InF32(args, 0);
  double lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= s.n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += x[i + l];
  }
  for (int64_t l = 0; i < s.n; ++i, ++l) lane[l] += x[i];
  double total = 0;
  for (const double part : lane) total += part;
  *OutF32(args, 0) = static_cast<float>(total / static_cast<double>(s.n));
  return OkStatus();
}

Status RunGrad(State& s, const KernelArgs& args) {
  std::fill_n(OutF32(args, 0), s.n, *InF32(args, 1) / static_cast<float>(s.n));
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Body>({view.in(0).shape.numel()});
}

}  // namespace

constinit const KernelList kMeanCpu = {{"plain", Prepare<Run>}};
constinit const KernelList kMeanGradCpu = {{"plain", Prepare<RunGrad>}};

}  // namespace tandem::ops
