#include <algorithm>

#include "kernels/ops/cpu_args.h"
#include "kernels/ops/gemm.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/matmul_dnnl.h"
#include "kernels/ops/op_defs.h"
#include "kernels/ops/parallel.h"

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

PlainState Sizes(const OpView& view) {
  const bool tx = view.attr<bool>("trans_x"), ty = view.attr<bool>("trans_y");
  const Shape& x = view.in(0).shape;
  return {tx ? x[1] : x[0], view.in(1).shape[ty ? 0 : 1], tx ? x[0] : x[1], tx, ty};
}

StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  return MakeKernel<PlainState, RunPlain>(Sizes(view));
}

// ---- libxsmm; a transposed Y is turned round in scratch first -----------------------------------

struct XsmmState {
  const Loops& loops;
  XsmmGemm gemm;
  PlainState s;
  int parts;
};

Status RunXsmm(XsmmState& st, const KernelArgs& args) {
  const float* y = InF32(args, 1);
  if (st.s.trans_y) {
    auto* turned = static_cast<float*>(args.scratch);
    st.loops.transpose(y, turned, st.s.n, st.s.k);
    y = turned;
  }
  ParallelFor(st.parts, st.s.m, [&](int part, int64_t, int64_t) {
    st.gemm.Run(part, InF32(args, 0), y, OutF32(args, 0));
  });
  return OkStatus();
}

StatusOr<Kernel> PrepareXsmm(const OpView& view, const PrepareContext& ctx) {
  const PlainState s = Sizes(view);
  const int parts = XsmmGemm::PartsFor(ctx.threads, s.m, s.n, s.k);
  TD_ASSIGN_OR_RETURN(const XsmmGemm gemm, XsmmGemm::Make({.m = s.m,
                                                           .n = s.n,
                                                           .k = s.k,
                                                           .trans_a = s.trans_x,
                                                           .accumulate = false,
                                                           .parts = parts}));
  return MakeKernel<XsmmState, RunXsmm>({BestLoops(), gemm, s, parts},
                                        s.trans_y ? view.in(1).bytes() : 0);
}

}  // namespace

std::vector<KernelImpl> MatmulCpu() {
  return {{"xsmm", PrepareXsmm}, {"onednn", PrepareDnnlMatmul}, {"plain", PreparePlain}};
}

}  // namespace tandem
