#include <algorithm>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/op_defs.h"

namespace tandem {
namespace {

struct PlainState {
  int64_t m, n, k;
  bool trans_x, trans_y;
};

Status RunPlain(PlainState& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *y = InF32(args, 1);
  float* out = OutF32(args, 0);
  std::fill_n(out, s.m * s.n, 0.0f);
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t p = 0; p < s.k; ++p) {
      const float a = s.trans_x ? x[p * s.m + i] : x[i * s.k + p];
      for (int64_t j = 0; j < s.n; ++j) {
        out[i * s.n + j] += a * (s.trans_y ? y[j * s.k + p] : y[p * s.n + j]);
      }
    }
  }
  return OkStatus();
}

StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  const bool tx = view.attr<bool>("trans_x"), ty = view.attr<bool>("trans_y");
  const Shape& x = view.in(0).shape;
  return MakeKernel<PlainState, RunPlain>(
      {tx ? x[1] : x[0], view.in(1).shape[ty ? 0 : 1], tx ? x[0] : x[1], tx, ty});
}

}  // namespace

std::vector<KernelImpl> MatmulCpu() { return {{"plain", PreparePlain}}; }

}  // namespace tandem
