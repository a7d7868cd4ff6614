// CUDA kernels of activations and other functions of single elements. Their operators are defined
// in activation.cc, relu.cc, scale.cc, sum.cc, clip.cc and regularize.cc.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/formulas/activation.h"
#include "kernels/ops/formulas/update.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t n;
};

template <typename T, typename F, int inputs>
Status Run(State& s, const KernelArgs& args) {
  std::array<const T*, inputs> in;
  for (int k = 0; k < inputs; ++k) in[k] = In<T>(args, k);
  return Map<T, inputs>(args, in, Out<T>(args, 0), s.n, [] __device__(const float* v) {
    if constexpr (inputs == 1) {
      return F::Of(v[0]);
    } else {
      return F::Of(v[0], v[1]);
    }
  });
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Body>({view.in(0).shape.numel()});
}

template <typename F, int inputs>
StatusOr<Kernel> PrepareMap(const OpView& view, const PrepareContext& ctx) {
  return ByType<Prepare<Run<float, F, inputs>>, Prepare<Run<__half, F, inputs>>,
                Prepare<Run<__nv_bfloat16, F, inputs>>>(view, ctx);
}

StatusOr<Kernel> PrepareGelu(const OpView& view, const PrepareContext& ctx) {
  return view.attr<bool>("approximate") ? PrepareMap<GeluTanh, 1>(view, ctx)
                                        : PrepareMap<Gelu, 1>(view, ctx);
}
StatusOr<Kernel> PrepareGeluGrad(const OpView& view, const PrepareContext& ctx) {
  return view.attr<bool>("approximate") ? PrepareMap<GeluTanhGrad, 2>(view, ctx)
                                        : PrepareMap<GeluGrad, 2>(view, ctx);
}

// ---- Functions with attributes ------------------------------------------------------------------

struct Pair {
  int64_t n;
  float a, b;
};

template <typename T>
Status RunScale(Pair& s, const KernelArgs& args) {
  const float scale = s.a, bias = s.b;
  return Map<T, 1>(args, {In<T>(args, 0)}, Out<T>(args, 0), s.n,
                   [=] __device__(const float* v) { return v[0] * scale + bias; });
}

Status RunClip(Pair& s, const KernelArgs& args) {
  const float low = s.a, high = s.b;
  return Map<float, 1>(args, {In<float>(args, 0)}, Out<float>(args, 0), s.n,
                       [=] __device__(const float* v) { return Clip::Of(v[0], low, high); });
}

Status RunClipGrad(Pair& s, const KernelArgs& args) {
  const float low = s.a, high = s.b;
  return Map<float, 2>(
      args, {In<float>(args, 0), In<float>(args, 1)}, Out<float>(args, 0), s.n,
      [=] __device__(const float* v) { return v[0] < low || v[0] > high ? 0.0f : v[1]; });
}

Status RunRegularize(Pair& s, const KernelArgs& args) {
  const float l1 = s.a, l2 = s.b;
  return Map<float, 2>(
      args, {In<float>(args, 0), In<float>(args, 1)}, Out<float>(args, 0), s.n,
      [=] __device__(const float* v) { return Regularize::Of(v[0], v[1], l1, l2); });
}

template <Status (*Body)(Pair&, const KernelArgs&)>
StatusOr<Kernel> PrepareScale(const OpView& view, const PrepareContext&) {
  return MakeKernel<Pair, Body>(
      {view.in(0).shape.numel(), AttrF32(view, "scale"), AttrF32(view, "bias")});
}

template <Status (*Body)(Pair&, const KernelArgs&)>
StatusOr<Kernel> PrepareClip(const OpView& view, const PrepareContext&) {
  return MakeKernel<Pair, Body>(
      {view.in(0).shape.numel(), AttrF32(view, "min"), AttrF32(view, "max")});
}

StatusOr<Kernel> PrepareRegularize(const OpView& view, const PrepareContext&) {
  if (view.has_in(2)) return Unimplemented("this kernel does not support sparse gradients");
  return MakeKernel<Pair, RunRegularize>(
      {view.in(0).shape.numel(), AttrF32(view, "l1"), AttrF32(view, "l2")});
}

// ---- sum: up to four inputs per launch, in order ------------------------------------------------

struct SumState {
  int64_t n;
  int count;
};

template <typename T, int inputs>
Status AddUp(const KernelArgs& args, const std::array<const T*, inputs>& in, int64_t n) {
  return Map<T, inputs>(args, in, Out<T>(args, 0), n, [] __device__(const float* v) {
    float sum = v[0];
    for (int k = 1; k < inputs; ++k) sum += v[k];
    return sum;
  });
}

Status RunSum(SumState& s, const KernelArgs& args) {
  const auto in = [&args](int i) { return In<float>(args, i); };
  if (s.count == 1) return CopyOnDevice(args, args.out[0], args.in[0], s.n * sizeof(float));
  const float* sum = in(0);
  int next = 1;
  for (; s.count - next >= 3; next += 3, sum = Out<float>(args, 0)) {
    TD_RETURN_IF_ERROR((AddUp<float, 4>(args, {sum, in(next), in(next + 1), in(next + 2)}, s.n)));
  }
  const int rest = s.count - next;
  if (rest == 2) return AddUp<float, 3>(args, {sum, in(next), in(next + 1)}, s.n);
  return rest == 1 ? AddUp<float, 2>(args, {sum, in(next)}, s.n) : OkStatus();
}

// Adds one to four 16-bit inputs in one launch. PrepareSum rejects more inputs, because
// intermediate sums would be rounded.
template <typename T>
Status RunSumHalf(SumState& s, const KernelArgs& args) {
  if (s.count == 1) return CopyOnDevice(args, args.out[0], args.in[0], s.n * sizeof(T));
  if (s.count == 2) return AddUp<T, 2>(args, {In<T>(args, 0), In<T>(args, 1)}, s.n);
  if (s.count == 3) {
    return AddUp<T, 3>(args, {In<T>(args, 0), In<T>(args, 1), In<T>(args, 2)}, s.n);
  }
  return AddUp<T, 4>(args, {In<T>(args, 0), In<T>(args, 1), In<T>(args, 2), In<T>(args, 3)}, s.n);
}

template <Status (*Body)(SumState&, const KernelArgs&)>
StatusOr<Kernel> PrepareSum(const OpView& view, const PrepareContext&) {
  const auto count = static_cast<int>(view.in_count());
  if (Body != RunSum && count > 4)
    return Unimplemented("this kernel supports at most 4 inputs of 16-bit type");
  return MakeKernel<SumState, Body>({view.in(0).shape.numel(), count});
}

}  // namespace

std::vector<KernelRegistration> ActivationCudaRows() {
  return {
      {"relu", {{"cuda", PrepareMap<Relu, 1>}}},
      {"relu_grad", {{"cuda", PrepareMap<ReluGrad, 2>}}},
      {"sigmoid", {{"cuda", PrepareMap<Sigmoid, 1>}}},
      {"sigmoid_grad", {{"cuda", PrepareMap<SigmoidGrad, 2>}}},
      {"tanh", {{"cuda", PrepareMap<Tanh, 1>}}},
      {"tanh_grad", {{"cuda", PrepareMap<TanhGrad, 2>}}},
      {"gelu", {{"cuda", PrepareGelu}}},
      {"gelu_grad", {{"cuda", PrepareGeluGrad}}},
      {"scale",
       {{"cuda", ByType<PrepareScale<RunScale<float>>, PrepareScale<RunScale<__half>>,
                        PrepareScale<RunScale<__nv_bfloat16>>>}}},
      {"sum",
       {{"cuda", ByType<PrepareSum<RunSum>, PrepareSum<RunSumHalf<__half>>,
                        PrepareSum<RunSumHalf<__nv_bfloat16>>>}}},
      {"clip", {{"cuda", PrepareClip<RunClip>}}},
      {"clip_grad", {{"cuda", PrepareClip<RunClipGrad>}}},
      {"regularize", {{"cuda", PrepareRegularize}}},
  };
}

}  // namespace tandem::ops
