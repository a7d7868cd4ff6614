// CUDA kernels of pool2d, which is defined in pool2d.cc. Forward: one thread computes one element
// of the output. Gradient: one thread computes one element of the input gradient, from all windows
// that contain this element. Thus no two threads add to the same element.
#include "kernels/ops/conv/pool2d.h"
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/images_cuda.h"

namespace tandem::ops {
namespace {

struct State {
  PoolShape s;
  int64_t channels;
};

CudaImages InputOf(const State& st) {
  return {st.channels, st.s.in[0], st.s.in[1], st.s.layout == ImageLayout::kLast};
}
CudaImages OutputOf(const State& st) {
  return {st.channels, st.s.out[0], st.s.out[1], st.s.layout == ImageLayout::kLast};
}

// Returns the index of the largest element in window `w`; if several elements are equally large,
// the index of the first.
template <typename T>
__device__ int64_t ArgMax(const T* x, const CudaImages& in, const CudaImages::Place& p,
                          const PoolWindow& w) {
  int64_t best = in.At(p.n, p.c, w.top, w.left);
  float largest = Wide(x[best]);
  for (int64_t y = w.top; y < w.bottom; ++y) {
    for (int64_t c = w.left; c < w.right; ++c) {
      const int64_t at = in.At(p.n, p.c, y, c);
      const float v = Wide(x[at]);
      if (!(v > largest)) continue;
      largest = v;
      best = at;
    }
  }
  return best;
}

template <typename T>
Status Run(State& st, const KernelArgs& args) {
  const PoolShape s = st.s;
  const CudaImages in = InputOf(st), out = OutputOf(st);
  const T* x = In<T>(args, 0);
  T* y = Out<T>(args, 0);
  return ForEach(args, s.planes * s.out_plane(), [=] __device__(int64_t i) {
    const CudaImages::Place p = out.PlaceOf(i);
    const PoolWindow w = WindowAt(s, p.y, p.x);
    if (s.max) {
      y[i] = x[ArgMax(x, in, p, w)];
      return;
    }
    float sum = 0.0f;
    for (int64_t row = w.top; row < w.bottom; ++row) {
      for (int64_t c = w.left; c < w.right; ++c) sum += Wide(x[in.At(p.n, p.c, row, c)]);
    }
    y[i] = Narrow<T>(sum / PoolDivisor(s, w));
  });
}

// Returns the first window along one dimension that contains index `at`. The last window that
// contains `at` is (at + pad) / stride, unless the dimension has fewer windows.
__device__ int64_t FirstWindow(int64_t at, int64_t pad, int64_t kernel, int64_t stride) {
  const int64_t reach = at + pad - kernel;
  return reach < 0 ? 0 : reach / stride + 1;
}

template <typename T>
Status RunGrad(State& st, const KernelArgs& args) {
  const PoolShape s = st.s;
  const CudaImages in = InputOf(st), out = OutputOf(st);
  const T *x = In<T>(args, 0), *g = In<T>(args, 2);
  T* gx = Out<T>(args, 0);
  return ForEach(args, s.planes * s.in_plane(), [=] __device__(int64_t i) {
    const CudaImages::Place p = in.PlaceOf(i);
    const int64_t bottom = (p.y + s.pad[0]) / s.stride[0], right = (p.x + s.pad[1]) / s.stride[1];
    const int64_t top = FirstWindow(p.y, s.pad[0], s.kernel[0], s.stride[0]);
    const int64_t left = FirstWindow(p.x, s.pad[1], s.kernel[1], s.stride[1]);
    float sum = 0.0f;
    for (int64_t y = top; y <= bottom && y < s.out[0]; ++y) {
      for (int64_t c = left; c <= right && c < s.out[1]; ++c) {
        const PoolWindow w = WindowAt(s, y, c);
        const float from = Wide(g[out.At(p.n, p.c, y, c)]);
        if (!s.max) {
          sum += from / PoolDivisor(s, w);
        } else if (ArgMax(x, in, p, w) == i) {
          sum += from;
        }
      }
    }
    gx[i] = Narrow<T>(sum);
  });
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  if (s.layout == ImageLayout::kBlocked)
    return Unimplemented("this kernel does not support layout nChw16c");
  return MakeKernel<State, Body>({s, view.in(0).shape[1]});
}

}  // namespace

std::vector<KernelRegistration> PoolCudaRows() {
  return {
      {"pool2d",
       {{"cuda", ByType<Prepare<Run<float>>, Prepare<Run<__half>>, Prepare<Run<__nv_bfloat16>>>}}},
      {"pool2d_grad",
       {{"cuda", ByType<Prepare<RunGrad<float>>, Prepare<RunGrad<__half>>,
                        Prepare<RunGrad<__nv_bfloat16>>>}}}};
}

}  // namespace tandem::ops
