// CUDA kernels of the elementwise_* operators, which are defined in elementwise.cc.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/elementwise/elementwise.h"
#include "kernels/ops/formulas/activation.h"

namespace tandem::ops {
namespace {

struct State {
  BroadcastShape s;

  int64_t numel() const { return s.outer * s.len * s.inner; }
  bool alike() const { return s.outer == 1 && s.inner == 1; }
  MiddleSums repeats() const { return {s.outer, s.len, s.inner}; }
};

// Returns the index of the element of Y with which element i of X is combined.
struct MeetsY {
  int64_t len, inner;
  __device__ int64_t operator()(int64_t i) const {
    return Remainder(inner == 1 ? i : Quotient(i, inner), len);
  }
};

template <typename T, typename F>
Status Run(State& st, const KernelArgs& args) {
  const T *x = In<T>(args, 0), *y = In<T>(args, 1);
  T* out = Out<T>(args, 0);
  if (st.alike()) {
    return Map<T, 2>(args, {x, y}, out, st.numel(),
                     [] __device__(const float* v) { return F::Of(v[0], v[1]); });
  }
  const MeetsY meets{st.s.len, st.s.inner};
  return ForEach(args, st.numel(), [=] __device__(int64_t i) {
    out[i] = Narrow<T>(F::Of(Wide(x[i]), Wide(y[meets(i)])));
  });
}

// Inputs of a gradient. x and y are nullptr for sums and differences, which do not use them.
template <typename T>
struct Operands {
  const T *x, *y, *g;
  MeetsY meets;

  __device__ float X(int64_t i) const { return x == nullptr ? 0.0f : Wide(x[i]); }
  __device__ float Y(int64_t i) const { return y == nullptr ? 0.0f : Wide(y[meets(i)]); }
  __device__ float G(int64_t i) const { return Wide(g[i]); }
};

template <typename T, typename F>
Status RunGrad(State& st, const KernelArgs& args) {
  const Operands<T> o{In<T>(args, 0), In<T>(args, 1), In<T>(args, 2), {st.s.len, st.s.inner}};
  if (T* gy = Out<T>(args, 1)) {
    const auto part = [o] __device__(int64_t i, int64_t) {
      return F::GradY(o.X(i), o.Y(i), o.G(i));
    };
    const auto put = [gy] __device__(int64_t i, float sum) { gy[i] = Narrow<T>(sum); };
    if (st.alike()) {
      TD_RETURN_IF_ERROR(
          ForEach(args, st.numel(), [=] __device__(int64_t i) { put(i, part(i, i)); }));
    } else {
      TD_RETURN_IF_ERROR(st.repeats().Run(args, args.scratch, part, put));
    }
  }
  T* gx = Out<T>(args, 0);
  if (gx == nullptr) return OkStatus();
  return ForEach(args, st.numel(), [=] __device__(int64_t i) {
    gx[i] = Narrow<T>(F::GradX(o.X(i), o.Y(i), o.G(i)));
  });
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const BroadcastShape s, BroadcastShapeOf(view));
  const State state{s};
  return MakeKernel<State, Body>(state, state.repeats().scratch_bytes());
}

template <typename F>
KernelRegistration Forward(const char* op) {
  return {
      op,
      {{"cuda",
        ByType<Prepare<Run<float, F>>, Prepare<Run<__half, F>>, Prepare<Run<__nv_bfloat16, F>>>}}};
}
template <typename F>
KernelRegistration Backward(const char* op) {
  return {op,
          {{"cuda", ByType<Prepare<RunGrad<float, F>>, Prepare<RunGrad<__half, F>>,
                           Prepare<RunGrad<__nv_bfloat16, F>>>}}};
}

}  // namespace

std::vector<KernelRegistration> ElementwiseCudaRows() {
  return {Forward<Add>("elementwise_add"), Backward<Add>("elementwise_add_grad"),
          Forward<Sub>("elementwise_sub"), Backward<Sub>("elementwise_sub_grad"),
          Forward<Mul>("elementwise_mul"), Backward<Mul>("elementwise_mul_grad"),
          Forward<Div>("elementwise_div"), Backward<Div>("elementwise_div_grad"),
          Forward<Max>("elementwise_max"), Backward<Max>("elementwise_max_grad")};
}

}  // namespace tandem::ops
