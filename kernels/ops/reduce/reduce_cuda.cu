// CUDA kernels of mean and of the reduce_* operators, which are defined in mean.cc and reduce.cc.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"
#include "kernels/ops/reduce/reduce.h"

namespace tandem::ops {
namespace {

// ---- mean ---------------------------------------------------------------------------------------

struct MeanState {
  int64_t n, pieces;
};

// Computes the mean. Scratch memory contains the sum of each piece of X, in f64.
Status RunMean(MeanState& s, const KernelArgs& args) {
  const int64_t n = s.n, piece = (s.n + s.pieces - 1) / s.pieces;
  const float* x = In<float>(args, 0);
  float* out = Out<float>(args, 0);
  auto* sums = static_cast<double*>(args.scratch);
  TD_RETURN_IF_ERROR(RowSums<double>(
      args, s.pieces, piece,
      [=] __device__(int64_t p, int64_t i) {
        const int64_t at = p * piece + i;
        return at < n ? static_cast<double>(x[at]) : 0.0;
      },
      [=] __device__(int64_t p, double sum) { sums[p] = sum; }));
  return RowSums<double>(
      args, 1, s.pieces, [=] __device__(int64_t, int64_t p) { return sums[p]; },
      [=] __device__(int64_t, double sum) {
        *out = static_cast<float>(sum / static_cast<double>(n));
      });
}

StatusOr<Kernel> PrepareMean(const OpView& view, const PrepareContext&) {
  const int64_t n = view.in(0).shape.numel();
  const MeanState s{n, std::clamp<int64_t>(n / 4096, 1, 512)};
  return MakeKernel<MeanState, RunMean>(s, static_cast<size_t>(s.pieces) * sizeof(double));
}

Status RunMeanGrad(MeanState& s, const KernelArgs& args) {
  const float* g = In<float>(args, 1);
  float* out = Out<float>(args, 0);
  const auto n = static_cast<float>(s.n);
  return ForEach(args, s.n, [=] __device__(int64_t i) { out[i] = *g / n; });
}

StatusOr<Kernel> PrepareMeanGrad(const OpView& view, const PrepareContext&) {
  return MakeKernel<MeanState, RunMeanGrad>({view.in(0).shape.numel(), 1});
}

// ---- reduce_* -----------------------------------------------------------------------------------

enum class Kind { kSum, kMean, kMax };

struct State {
  int64_t outer, len, inner;  // sizes of X, viewed as [outer, len, inner]
};

// Returns the offset of the k-th of the elements that are reduced to result r = (o, j).
struct ElementOf {
  int64_t len, inner;
  __device__ int64_t operator()(int64_t r, int64_t k) const {
    const int64_t o = Quotient(r, inner);
    return (o * len + k) * inner + (r - o * inner);
  }
};

template <Kind kind>
__global__ void ReduceKernel(State s, const float* x, float* out) {
  const ElementOf at{s.len, s.inner};
  for (int64_t r = blockIdx.x; r < s.outer * s.inner; r += gridDim.x) {
    float value = kind == Kind::kMax ? -__int_as_float(0x7F800000) : 0.0f;
    for (int64_t k = threadIdx.x; k < s.len; k += blockDim.x) {
      const float v = x[at(r, k)];
      value = kind != Kind::kMax ? value + v : v > value ? v : value;
    }
    value = kind == Kind::kMax ? BlockMax(value) : BlockSum(value);
    if (threadIdx.x != 0) continue;
    out[r] = kind == Kind::kMean ? value * (1.0f / static_cast<float>(s.len)) : value;
  }
}

template <Kind kind>
Status Run(State& s, const KernelArgs& args) {
  const int64_t results = s.outer * s.inner;
  if (results == 0) return OkStatus();
  return Launch(args, CudaBlocks(results, 1), RowThreads(s.len), ReduceKernel<kind>, s,
                In<float>(args, 0), Out<float>(args, 0));
}

template <Kind kind>
Status RunGrad(State& s, const KernelArgs& args) {
  const float *x = In<float>(args, 0), *g = In<float>(args, 1);
  const float* best = kind == Kind::kMax ? In<float>(args, 2) : nullptr;
  float* gx = Out<float>(args, 0);
  const float factor = kind == Kind::kMean ? 1.0f / static_cast<float>(s.len) : 1.0f;
  const int64_t len = s.len, inner = s.inner;
  return ForEach(args, s.outer * len * inner, [=] __device__(int64_t i) {
    const int64_t r = Quotient(i, len * inner) * inner + Remainder(i, inner);
    gx[i] = best != nullptr && x[i] != best[r] ? 0.0f : g[r] * factor;
  });
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const Reduction r, ReductionOf(view));
  if (!r.neighbours) return Unimplemented("this kernel supports only neighbouring dimensions");
  return MakeKernel<State, Body>({r.outer, r.len, r.inner});
}

}  // namespace

std::vector<KernelRegistration> ReduceCudaRows() {
  return {
      {"mean", {{"cuda", PrepareMean}}},
      {"mean_grad", {{"cuda", PrepareMeanGrad}}},
      {"reduce_max", {{"cuda", Prepare<Run<Kind::kMax>>}}},
      {"reduce_max_grad", {{"cuda", Prepare<RunGrad<Kind::kMax>>}}},
      {"reduce_mean", {{"cuda", Prepare<Run<Kind::kMean>>}}},
      {"reduce_mean_grad", {{"cuda", Prepare<RunGrad<Kind::kMean>>}}},
      {"reduce_sum", {{"cuda", Prepare<Run<Kind::kSum>>}}},
      {"reduce_sum_grad", {{"cuda", Prepare<RunGrad<Kind::kSum>>}}},
  };
}

}  // namespace tandem::ops
