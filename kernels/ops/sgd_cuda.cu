// CUDA kernel of sgd: see sgd.cc for the definition.
#include <cuda_runtime.h>

#include "kernels/ops/cuda_kernels.h"

namespace tandem {
namespace {

struct SgdState {
  int64_t n;
};

// The same two roundings as on the CPU: no fused multiply-add.
__global__ void SgdKernel(const float* param, const float* grad, const float* learning_rate,
                          float* out, int64_t n) {
  const float lr = *learning_rate;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += stride) {
    out[i] = __fsub_rn(param[i], __fmul_rn(lr, grad[i]));
  }
}

Status RunSgd(SgdState& state, const KernelArgs& args) {
  constexpr int kThreads = 256;
  constexpr int64_t kBlocksMax = 4096;
  if (state.n == 0) return OkStatus();
  const int64_t wanted = (state.n + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kBlocksMax ? wanted : kBlocksMax);
  SgdKernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(args.stream)>>>(
      static_cast<const float*>(args.in[0]), static_cast<const float*>(args.in[1]),
      static_cast<const float*>(args.in[2]), static_cast<float*>(args.out[0]), state.n);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return Internal("kernel launch: %s", cudaGetErrorString(error));
  return OkStatus();
}

}  // namespace

StatusOr<Kernel> PrepareSgdCuda(const OpView& view, const PrepareContext&) {
  if (view.has_in(3)) return Unimplemented("sparse gradients");
  return MakeKernel<SgdState, RunSgd>({view.in(0).shape.numel()});
}

}  // namespace tandem
