#include "kernels/ops/product/matmul_tiles.h"

#include <algorithm>

#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/cpu/tile_gemm.h"
#include "kernels/ops/product/bias_grad.h"
#include "kernels/ops/product/matmul.h"

namespace tandem::ops {
namespace {

// ---- matmul: one product is split among threads, several are distributed whole ------------------

struct MatmulState {
  TileGemm gemm;
  MatmulSizes s;
  int parts;
};

Status RunMatmul(MatmulState& st, const KernelArgs& args) {
  const MatmulSizes& s = st.s;
  ParallelFor(st.parts, s.batch, [&](int part, int64_t begin, int64_t end) {
    std::byte* scratch =
        static_cast<std::byte*>(args.scratch) + static_cast<size_t>(part) * st.gemm.scratch_bytes();
    for (int64_t b = begin; b < end; ++b) {
      st.gemm.Run(InF32(args, 0) + b * s.m * s.k, InF32(args, 1) + b * s.k * s.n, nullptr,
                  OutF32(args, 0) + b * s.m * s.n, scratch);
    }
  });
  return OkStatus();
}

// ---- fc -----------------------------------------------------------------------------------------

Status RunFc(TileGemm& gemm, const KernelArgs& args) {
  gemm.Run(InF32(args, 0), InF32(args, 1), InF32(args, 2), OutF32(args, 0), args.scratch);
  return OkStatus();
}

struct FcGradState {
  TileGemm input, weight;
  BiasGrad bias;
};

Status RunFcGrad(FcGradState& s, const KernelArgs& args) {
  if (float* sum = OutF32(args, 2)) s.bias.Run(args.in[2], sum);
  const float *x = InF32(args, 0), *w = InF32(args, 1), *grad = InF32(args, 2);
  if (float* gx = OutF32(args, 0)) s.input.Run(grad, w, nullptr, gx, args.scratch);
  if (float* gw = OutF32(args, 1)) s.weight.Run(x, grad, nullptr, gw, args.scratch);
  return OkStatus();
}

}  // namespace

StatusOr<Kernel> PrepareTileMatmul(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const MatmulSizes s, MatmulSizesOf(view));
  TD_REQUIRE(view.in(0).dtype == DType::kF32);
  TD_REQUIRE(s.batch * s.m * s.n == view.out(0).shape.numel());
  const bool one = s.batch == 1;
  TD_ASSIGN_OR_RETURN(TileGemm gemm, TileGemm::Make({.m = s.m,
                                                     .n = s.n,
                                                     .k = s.k,
                                                     .trans_a = s.trans_x,
                                                     .trans_b = s.trans_y,
                                                     .alpha = s.alpha,
                                                     .threads = one ? ctx.threads : 1}));
  const int parts = one ? 1 : static_cast<int>(std::clamp<int64_t>(s.batch, 1, ctx.threads));
  const size_t scratch = gemm.scratch_bytes() * static_cast<size_t>(parts);
  return MakeKernel<MatmulState, RunMatmul>({std::move(gemm), s, parts}, scratch);
}

StatusOr<Kernel> PrepareTileFc(const OpView& view, const PrepareContext& ctx) {
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  TD_REQUIRE(view.in(0).dtype == DType::kF32 && x[1] == w[0]);
  TD_ASSIGN_OR_RETURN(TileGemm gemm, TileGemm::Make({.m = x[0],
                                                     .n = w[1],
                                                     .k = x[1],
                                                     .trans_a = false,
                                                     .trans_b = false,
                                                     .threads = ctx.threads}));
  const size_t scratch = gemm.scratch_bytes();
  return MakeKernel<TileGemm, RunFc>(std::move(gemm), scratch);
}

StatusOr<Kernel> PrepareTileFcGrad(const OpView& view, const PrepareContext& ctx) {
  const Shape &x = view.in(0).shape, &w = view.in(1).shape;
  const int64_t m = x[0], k = x[1], n = w[1];
  TD_REQUIRE(view.in(2).dtype == DType::kF32 && view.in(2).shape == Shape({m, n}));
  if (!view.has_out(0) && !view.has_out(1))
    return Unimplemented("the program requests no output of this operator");
  FcGradState state{{}, {}, BiasGrad(DType::kF32, m, n, ctx.threads)};
  size_t scratch = 0;
  if (view.has_out(0)) {
    TD_ASSIGN_OR_RETURN(
        state.input,
        TileGemm::Make(
            {.m = m, .n = k, .k = n, .trans_a = false, .trans_b = true, .threads = ctx.threads}));
    scratch = state.input.scratch_bytes();
  }
  if (view.has_out(1)) {
    TD_ASSIGN_OR_RETURN(
        state.weight,
        TileGemm::Make(
            {.m = k, .n = n, .k = m, .trans_a = true, .trans_b = false, .threads = ctx.threads}));
    scratch = std::max(scratch, state.weight.scratch_bytes());
  }
  return MakeKernel<FcGradState, RunFcGrad>(std::move(state), scratch);
}

}  // namespace tandem::ops
