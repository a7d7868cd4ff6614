#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/math_loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

constexpr int64_t kCost = 2;  // cost of one element, in element operations

template <typename Fn>
struct State {
  Fn loop;
  int64_t n;
  int parts;
};

Status Run(State<MathLoops::Fn>& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loop(InF32(args, 0) + begin, OutF32(args, 0) + begin, end - begin);
  });
  return OkStatus();
}

Status RunGrad(State<MathLoops::GradFn>& s, const KernelArgs& args) {
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loop(InF32(args, 0) + begin, InF32(args, 1) + begin, OutF32(args, 0) + begin, end - begin);
  });
  return OkStatus();
}

template <typename Fn>
State<Fn> StateFor(Fn loop, const OpView& view, const PrepareContext& ctx) {
  const int64_t n = view.in(0).shape.numel();
  TD_REQUIRE(view.out(0).shape.numel() == n && view.out(0).dtype == DType::kF32);
  TD_REQUIRE(view.in_count() == 1 || view.in(1).shape.numel() == n);
  return {loop, n, PartsFor(ctx.threads, n * kCost)};
}

template <MathLoops::Fn MathLoops::*loop>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  return MakeKernel<State<MathLoops::Fn>, Run>(StateFor(BestMathLoops().*loop, view, ctx));
}

template <MathLoops::GradFn MathLoops::*loop>
StatusOr<Kernel> PrepareGrad(const OpView& view, const PrepareContext& ctx) {
  return MakeKernel<State<MathLoops::GradFn>, RunGrad>(StateFor(BestMathLoops().*loop, view, ctx));
}

StatusOr<Kernel> PrepareGelu(const OpView& view, const PrepareContext& ctx) {
  return view.attr<bool>("approximate") ? Prepare<&MathLoops::gelu_tanh>(view, ctx)
                                        : Prepare<&MathLoops::gelu>(view, ctx);
}

StatusOr<Kernel> PrepareGeluGrad(const OpView& view, const PrepareContext& ctx) {
  return view.attr<bool>("approximate") ? PrepareGrad<&MathLoops::gelu_tanh_grad>(view, ctx)
                                        : PrepareGrad<&MathLoops::gelu_grad>(view, ctx);
}

}  // namespace

constinit const KernelList kSigmoidCpu = {{"vector", OrWidened<Prepare<&MathLoops::sigmoid>>}};
constinit const KernelList kSigmoidGradCpu = {
    {"vector", OrWidened<PrepareGrad<&MathLoops::sigmoid_grad>>}};
constinit const KernelList kTanhCpu = {{"vector", OrWidened<Prepare<&MathLoops::tanh>>}};
constinit const KernelList kTanhGradCpu = {
    {"vector", OrWidened<PrepareGrad<&MathLoops::tanh_grad>>}};
constinit const KernelList kGeluCpu = {{"vector", OrWidened<PrepareGelu>}};
constinit const KernelList kGeluGradCpu = {{"vector", OrWidened<PrepareGeluGrad>}};

}  // namespace tandem::ops
