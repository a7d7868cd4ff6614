#include <algorithm>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

// Input [m, k], W [k, n].
struct PlainState {
  int64_t m, n, k;
};

Status RunPlain(PlainState& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *w = InF32(args, 1), *bias = InF32(args, 2);
  float* out = OutF32(args, 0);
  for (int64_t i = 0; i < s.m; ++i, out += s.n) {
    for (int64_t j = 0; j < s.n; ++j) out[j] = bias == nullptr ? 0.0f : bias[j];
    for (int64_t p = 0; p < s.k; ++p) {
      for (int64_t j = 0; j < s.n; ++j) out[j] += x[i * s.k + p] * w[p * s.n + j];
    }
  }
  return OkStatus();
}

Status RunPlainGrad(PlainState& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *w = InF32(args, 1), *g = InF32(args, 2);
  float *gx = OutF32(args, 0), *gw = OutF32(args, 1), *gb = OutF32(args, 2);
  if (gw != nullptr) std::fill_n(gw, s.k * s.n, 0.0f);
  if (gb != nullptr) std::fill_n(gb, s.n, 0.0f);
  for (int64_t i = 0; i < s.m; ++i, g += s.n) {
    for (int64_t p = 0; p < s.k; ++p) {
      float dot = 0.0f;
      for (int64_t j = 0; j < s.n; ++j) {
        dot += g[j] * w[p * s.n + j];
        if (gw != nullptr) gw[p * s.n + j] += x[i * s.k + p] * g[j];
      }
      if (gx != nullptr) gx[i * s.k + p] = dot;
    }
    for (int64_t j = 0; gb != nullptr && j < s.n; ++j) gb[j] += g[j];
  }
  return OkStatus();
}

template <Status (*Body)(PlainState&, const KernelArgs&)>
StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  return MakeKernel<PlainState, Body>({x[0], w[1], x[1]});
}

}  // namespace

std::vector<KernelImpl> FcCpu() { return {{"plain", PreparePlain<RunPlain>}}; }
std::vector<KernelImpl> FcGradCpu() { return {{"plain", PreparePlain<RunPlainGrad>}}; }

}  // namespace tandem
