#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

struct State {
  UpdateArgs args;  // arguments of momentum, with the rate of a step
  float gradients = 1;
  int64_t n = 0;
  int parts = 1;
};

// Elements [begin, end) of the tensors of a run.
struct Span {
  const float *p, *g, *velocity, *sum;
  float *p_out, *velocity_out, *sum_out;
  int64_t n;

  Span(const KernelArgs& a, int64_t begin, int64_t end)
      : p(InF32(a, 0) + begin),
        g(InF32(a, 1) + begin),
        velocity(InF32(a, 2) + begin),
        sum(InF32(a, 3) + begin),
        p_out(OutF32(a, 0) + begin),
        velocity_out(OutF32(a, 1) + begin),
        sum_out(OutF32(a, 2) + begin),
        n(end - begin) {}
};

void CopyUnlessSame(const float* from, int64_t n, float* to) {
  if (from != to) std::copy_n(from, n, to);
}

// Adds the gradient with its weight to the sum.
void Add(const Span& s, float weight) {
  BestUpdateLoops().sgd({.lr = -weight},
                        {.p = s.sum, .g = s.g, .s = {}, .po = s.sum_out, .so = {}, .n = s.n});
}

// Makes a step with the sum times `scale`, and clears the sum.
void Step(const State& state, const Span& s, float scale) {
  for (int64_t i = 0; i < s.n; ++i) s.sum_out[i] *= scale;
  BestUpdateLoops().momentum(state.args, {.p = s.p,
                                          .g = s.sum_out,
                                          .s = {s.velocity},
                                          .po = s.p_out,
                                          .so = {s.velocity_out},
                                          .n = s.n});
  std::fill_n(s.sum_out, s.n, 0.0f);
}

Status Run(State& state, const KernelArgs& kernel) {
  const float added = *InF32(kernel, 6);
  const float weight = *InF32(kernel, 4) + added, count = *InF32(kernel, 5) + 1;
  const bool steps = count >= state.gradients;
  ParallelFor(state.parts, state.n, [&](int, int64_t begin, int64_t end) {
    const Span span(kernel, begin, end);
    Add(span, added);
    if (steps) return Step(state, span, weight > 0 ? 1 / weight : 0);
    CopyUnlessSame(span.p, span.n, span.p_out);
    CopyUnlessSame(span.velocity, span.n, span.velocity_out);
  });
  *OutF32(kernel, 3) = steps ? 0 : weight;
  *OutF32(kernel, 4) = steps ? 0 : count;
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  UpdateArgs args = MomentumArgs(view);
  args.lr = AttrF32(view, "rate");
  const int64_t n = view.in(0).shape.numel();
  constexpr int64_t kTensors = 3;  // parameter, velocity and sum
  return MakeKernel<State, Run>({.args = args,
                                 .gradients = static_cast<float>(view.attr<int64_t>("gradients")),
                                 .n = n,
                                 .parts = PartsFor(ctx.threads, kTensors * n)});
}

}  // namespace

constinit const KernelList kBufferedMomentumCpu = {{"vector", Prepare}};

}  // namespace tandem::ops
