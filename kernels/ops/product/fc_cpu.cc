#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/gemm.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/product/matmul_dnnl.h"
#include "kernels/ops/product/matmul_tiles.h"

namespace tandem::ops {
namespace {

// Sizes of the product: Input is [m, k], W is [k, n].
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
  TD_REQUIRE(x.rank() == 2 && w.rank() == 2 && x[1] == w[0]);
  return MakeKernel<PlainState, Body>({x[0], w[1], x[1]});
}

// ---- fc by libxsmm ------------------------------------------------------------------------------

struct XsmmState {
  const Loops& loops;
  XsmmGemm gemm;
  int64_t m, n;
  int parts;
};

Status RunXsmm(XsmmState& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *w = InF32(args, 1), *bias = InF32(args, 2);
  float* out = OutF32(args, 0);
  ParallelFor(s.parts, s.m, [&](int part, int64_t begin, int64_t end) {
    if (bias != nullptr) s.loops.fill_rows(bias, out + begin * s.n, end - begin, s.n);
    s.gemm.Run(part, x, w, out);
  });
  return OkStatus();
}

StatusOr<Kernel> PrepareXsmm(const OpView& view, const PrepareContext& ctx) {
  const int64_t m = view.in(0).shape[0], k = view.in(1).shape[0], n = view.in(1).shape[1];
  TD_REQUIRE(view.in(0).shape[1] == k && view.out(0).shape == Shape({m, n}));
  const int parts = XsmmGemm::PartsFor(ctx.threads, m, n, k);
  TD_ASSIGN_OR_RETURN(const XsmmGemm gemm, XsmmGemm::Make({.m = m,
                                                           .n = n,
                                                           .k = k,
                                                           .trans_a = false,
                                                           .accumulate = view.has_in(2),
                                                           .parts = parts}));
  return MakeKernel<XsmmState, RunXsmm>({BestLoops(), gemm, m, n, parts});
}

// Computes the gradients from the gradient G of Out. W@GRAD = Input^T G. Input@GRAD = G W^T, with W
// transposed into scratch memory. Bias@GRAD is the sum of the rows of G.
struct XsmmGradState {
  const Loops& loops;
  XsmmGemm input, weight;
  PlainState s;
  int parts;  // number of threads for each of the two products
};

Status RunXsmmGrad(XsmmGradState& st, const KernelArgs& args) {
  const auto& [m, n, k] = st.s;
  const float *x = InF32(args, 0), *w = InF32(args, 1), *g = InF32(args, 2);
  float *gx = OutF32(args, 0), *gw = OutF32(args, 1), *gb = OutF32(args, 2);
  auto* w_transposed = static_cast<float*>(args.scratch);  // W in transposed form, [n, k]
  if (gb != nullptr) st.loops.sum_rows(g, gb, m, n);
  if (gx != nullptr) st.loops.transpose(w, w_transposed, k, n);
  ParallelFor(st.parts, m, [&](int part, int64_t, int64_t) {
    if (gw != nullptr) st.weight.Run(part, x, g, gw);
    if (gx != nullptr) st.input.Run(part, g, w_transposed, gx);
  });
  return OkStatus();
}

StatusOr<Kernel> PrepareXsmmGrad(const OpView& view, const PrepareContext& ctx) {
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  TD_REQUIRE(x[1] == w[0] && view.in(2).shape == Shape({x[0], w[1]}));
  const PlainState s{x[0], w[1], x[1]};
  XsmmGradState st{BestLoops(), {}, {}, s, XsmmGemm::PartsFor(ctx.threads, s.m, s.n, s.k)};
  if (view.has_out(0)) {
    TD_ASSIGN_OR_RETURN(st.input, XsmmGemm::Make({.m = s.m,
                                                  .n = s.k,
                                                  .k = s.n,
                                                  .trans_a = false,
                                                  .accumulate = false,
                                                  .parts = st.parts}));
  }
  if (view.has_out(1)) {
    TD_ASSIGN_OR_RETURN(st.weight, XsmmGemm::Make({.m = s.k,
                                                   .n = s.n,
                                                   .k = s.m,
                                                   .trans_a = true,
                                                   .accumulate = false,
                                                   .parts = st.parts}));
  }
  const size_t scratch = view.has_out(0) ? view.in(1).bytes() : 0;
  return MakeKernel<XsmmGradState, RunXsmmGrad>(std::move(st), scratch);
}

}  // namespace

constinit const KernelList kFcCpu = {{"amx", F32Alone<PrepareTileFc>},
                                     {"xsmm", F32Alone<PrepareXsmm>},
                                     {"onednn", NativeOrWidened<PrepareDnnlFc>},
                                     {"plain", OrWidened<PreparePlain<RunPlain>>}};

constinit const KernelList kFcGradCpu = {{"amx", F32Alone<PrepareTileFcGrad>},
                                         {"xsmm", F32Alone<PrepareXsmmGrad>},
                                         {"onednn", NativeOrWidened<PrepareDnnlFcGrad>},
                                         {"plain", OrWidened<PreparePlain<RunPlainGrad>>}};

}  // namespace tandem::ops
