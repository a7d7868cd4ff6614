#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/rows/sparse_rows.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

struct State {
  const UpdateLoops& loops;
  float l1, l2;
  int64_t n, height;
  int parts;
  int64_t count = 0, dim = 0;
};

Status Run(State& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loops.regularize(InF32(args, 0) + begin, InF32(args, 1) + begin, s.l1, s.l2,
                       OutF32(args, 0) + begin, end - begin);
  });
  return OkStatus();
}

Status RunSparse(State& s, const KernelArgs& args) {
  const std::span rows(static_cast<const int64_t*>(args.in[2]), static_cast<size_t>(s.count));
  TD_ASSIGN_OR_RETURN(const int64_t count, CheckSparseRows(rows, s.height));
  for (int64_t i = 0; i < count; ++i) {
    s.loops.regularize(InF32(args, 0) + rows[i] * s.dim, InF32(args, 1) + i * s.dim, s.l1, s.l2,
                       OutF32(args, 0) + i * s.dim, s.dim);
  }
  std::fill_n(OutF32(args, 0) + count * s.dim, (s.count - count) * s.dim, 0.0f);
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.has_in(2) || view.in(1).shape.numel() == n);
  State s{BestUpdateLoops(),       AttrF32(view, "l1"), AttrF32(view, "l2"), n, 0,
          PartsFor(ctx.threads, n)};
  if (!view.has_in(2)) return MakeKernel<State, Run>(s);
  s.height = view.in(0).shape[0];
  s.count = view.in(1).shape[0];
  s.dim = view.in(1).shape[1];
  TD_REQUIRE(view.in(2).shape[0] == s.count && s.height * s.dim == n);
  return MakeKernel<State, RunSparse>(s);
}

}  // namespace

constinit const KernelList kRegularizeCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
