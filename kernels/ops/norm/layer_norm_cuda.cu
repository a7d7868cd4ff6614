// CUDA kernels of layer_norm, which is defined in layer_norm.cc. One block processes one row.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t rows, n;
  float epsilon;

  ColumnSums columns() const { return {rows, n}; }
};

__global__ void LayerNormKernel(State s, const float* x, const float* scale, const float* bias,
                                float* y, float* means, float* variances) {
  const auto n = static_cast<float>(s.n);
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const float* row = x + r * s.n;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) sum += row[i];
    const float mean = BlockSum(sum) / n;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      squares += (row[i] - mean) * (row[i] - mean);
    }
    const float variance = BlockSum(squares) / n;
    const float inverse = 1.0f / sqrtf(variance + s.epsilon);
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      const float v = (row[i] - mean) * inverse * (scale == nullptr ? 1.0f : scale[i]);
      y[r * s.n + i] = v + (bias == nullptr ? 0.0f : bias[i]);
    }
    if (threadIdx.x != 0) continue;
    if (means != nullptr) means[r] = mean;
    if (variances != nullptr) variances[r] = variance;
  }
}

// Computes the gradient of x. Let h = (x - mean) r and q = gy scale. Then gx = r (q - mean of q - h
// * mean of (q h)).
__global__ void LayerNormGradKernel(State s, const float* x, const float* scale, const float* means,
                                    const float* variances, const float* gy, float* gx) {
  const float share = 1.0f / static_cast<float>(s.n);
  for (int64_t r = blockIdx.x; r < s.rows; r += gridDim.x) {
    const int64_t at = r * s.n;
    const float mean = means[r], inverse = 1.0f / sqrtf(variances[r] + s.epsilon);
    float sum = 0.0f, dot = 0.0f;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      const float q = gy[at + i] * (scale == nullptr ? 1.0f : scale[i]);
      sum += q;
      dot += q * (x[at + i] - mean);
    }
    const float a = BlockSum(sum) * share, b = BlockSum(dot) * share * inverse * inverse;
    for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
      const float q = gy[at + i] * (scale == nullptr ? 1.0f : scale[i]);
      gx[at + i] = inverse * (q - a - (x[at + i] - mean) * b);
    }
  }
}

Status Run(State& s, const KernelArgs& args) {
  if (s.rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(s.n), LayerNormKernel, s,
                In<float>(args, 0), In<float>(args, 1), In<float>(args, 2), Out<float>(args, 0),
                Out<float>(args, 1), Out<float>(args, 2));
}

Status RunGrad(State& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *mean = In<float>(args, 2), *variance = In<float>(args, 3);
  const float *gy = In<float>(args, 4), epsilon = s.epsilon;
  const int64_t n = s.n;
  if (float* gscale = Out<float>(args, 1)) {
    TD_RETURN_IF_ERROR(s.columns().Run(
        args, args.scratch,
        [=] __device__(int64_t r, int64_t j) {
          const float inverse = 1.0f / sqrtf(variance[r] + epsilon);
          return gy[r * n + j] * ((x[r * n + j] - mean[r]) * inverse);
        },
        [=] __device__(int64_t j, float sum) { gscale[j] = sum; }));
  }
  if (float* gbias = Out<float>(args, 2)) {
    TD_RETURN_IF_ERROR(s.columns().Run(
        args, args.scratch, [=] __device__(int64_t r, int64_t j) { return gy[r * n + j]; },
        [=] __device__(int64_t j, float sum) { gbias[j] = sum; }));
  }
  float* gx = Out<float>(args, 0);
  if (gx == nullptr || s.rows == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.rows, 1), RowThreads(n), LayerNormGradKernel, s, x,
                In<float>(args, 1), mean, variance, gy, gx);
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  const Shape& x = view.in(0).shape;
  const int axis = static_cast<int>(view.attr<int64_t>("begin_norm_axis"));
  const State s{x.numel(0, axis), x.numel(axis, x.rank()),
                static_cast<float>(view.attr<double>("epsilon"))};
  return MakeKernel<State, Body>(s, s.columns().scratch_bytes());
}

}  // namespace

std::vector<KernelRegistration> LayerNormCudaRows() {
  return {{"layer_norm", {{"cuda", Prepare<Run>}}},
          {"layer_norm_grad", {{"cuda", Prepare<RunGrad>}}}};
}

}  // namespace tandem::ops
