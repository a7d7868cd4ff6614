#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/gemm.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/product/matmul.h"
#include "kernels/ops/product/matmul_dnnl.h"
#include "kernels/ops/product/matmul_tiles.h"

namespace tandem::ops {
namespace {

using PlainState = MatmulSizes;

Status RunPlain(PlainState& s, const KernelArgs& args) {
  const float *x = InF32(args, 0), *y = InF32(args, 1);
  float* out = OutF32(args, 0);
  std::fill_n(out, s.batch * s.m * s.n, 0.0f);
  for (int64_t b = 0; b < s.batch; ++b, x += s.m * s.k, y += s.k * s.n, out += s.m * s.n) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t p = 0; p < s.k; ++p) {
        const float a = s.alpha * (s.trans_x ? x[p * s.m + i] : x[i * s.k + p]);
        for (int64_t j = 0; j < s.n; ++j) {
          out[i * s.n + j] += a * (s.trans_y ? y[j * s.k + p] : y[p * s.n + j]);
        }
      }
    }
  }
  return OkStatus();
}

StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const MatmulSizes s, MatmulSizesOf(view));
  TD_REQUIRE(s.batch * s.m * s.n == view.out(0).shape.numel());
  return MakeKernel<PlainState, RunPlain>(s);
}

// ---- libxsmm: a transposed Y is first transposed back into scratch memory -----------------------

// One product: the rows of X are split among the threads. Several products: each thread computes
// whole products.
struct XsmmState {
  const Loops& loops;
  XsmmGemm gemm;
  MatmulSizes s;
  int parts;
};

void ScaleBy(const XsmmState& st, float* out, int64_t n) {
  if (st.s.alpha != 1.0f) st.loops.scale(out, st.s.alpha, 0.0f, out, n);
}

Status RunXsmm(XsmmState& st, const KernelArgs& args) {
  const float* y = InF32(args, 1);
  float* out = OutF32(args, 0);
  if (st.s.trans_y) {
    auto* turned = static_cast<float*>(args.scratch);
    st.loops.transpose(y, turned, st.s.n, st.s.k);
    y = turned;
  }
  ParallelFor(st.parts, st.s.m, [&](int part, int64_t begin, int64_t end) {
    st.gemm.Run(part, InF32(args, 0), y, out);
    ScaleBy(st, out + begin * st.s.n, (end - begin) * st.s.n);
  });
  return OkStatus();
}

Status RunXsmmBatch(XsmmState& st, const KernelArgs& args) {
  const MatmulSizes& s = st.s;
  ParallelFor(st.parts, s.batch, [&](int part, int64_t begin, int64_t end) {
    float* turned = static_cast<float*>(args.scratch) + part * s.k * s.n;
    for (int64_t b = begin; b < end; ++b) {
      const float* y = InF32(args, 1) + b * s.k * s.n;
      float* out = OutF32(args, 0) + b * s.m * s.n;
      if (s.trans_y) st.loops.transpose(y, turned, s.n, s.k);
      st.gemm.Run(0, InF32(args, 0) + b * s.m * s.k, s.trans_y ? turned : y, out);
      ScaleBy(st, out, s.m * s.n);
    }
  });
  return OkStatus();
}

StatusOr<Kernel> PrepareXsmm(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const MatmulSizes s, MatmulSizesOf(view));
  TD_REQUIRE(s.batch * s.m * s.n == view.out(0).shape.numel());
  TD_REQUIRE(s.batch * s.m * s.k == view.in(0).shape.numel());
  const bool batched = s.batch != 1;
  int parts = XsmmGemm::PartsFor(ctx.threads, s.batch * s.m, s.n, s.k);
  if (batched) parts = static_cast<int>(std::clamp<int64_t>(s.batch, 1, parts));
  TD_ASSIGN_OR_RETURN(const XsmmGemm gemm, XsmmGemm::Make({.m = s.m,
                                                           .n = s.n,
                                                           .k = s.k,
                                                           .trans_a = s.trans_x,
                                                           .accumulate = false,
                                                           .parts = batched ? 1 : parts}));
  const size_t turned = s.trans_y ? static_cast<size_t>(s.k * s.n) * sizeof(float) : 0;
  XsmmState state{BestLoops(), gemm, s, parts};
  if (!batched) return MakeKernel<XsmmState, RunXsmm>(std::move(state), turned);
  return MakeKernel<XsmmState, RunXsmmBatch>(std::move(state), turned * static_cast<size_t>(parts));
}

}  // namespace

constinit const KernelList kMatmulCpu = {{"amx", F32Alone<PrepareTileMatmul>},
                                         {"xsmm", F32Alone<PrepareXsmm>},
                                         {"onednn", NativeOrWidened<PrepareDnnlMatmul>},
                                         {"plain", OrWidened<PreparePlain>}};

}  // namespace tandem::ops
