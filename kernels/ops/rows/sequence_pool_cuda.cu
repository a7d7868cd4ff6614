// CUDA kernels of sequence_pool, which is defined in sequence_pool.cc. One thread processes one
// element over all steps of a sequence, so that the steps are added in order.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/formulas/sequence_pool.h"
#include "kernels/ops/rows/sequence_pool.h"

namespace tandem::ops {
namespace {

// Returns the number of steps of sequence `b`. If the length is invalid, records a fault and
// returns 0.
__device__ int64_t LengthOf(const SequencePool& s, const int64_t* lengths, int64_t b,
                            CudaFault* fault) {
  if (lengths == nullptr) return s.steps;
  const int64_t length = lengths[b];
  if (length >= 0 && length <= s.steps) return length;
  Blame(fault, CudaFault::kLengths, b, length, s.steps + 1);
  return 0;
}

// Pools one element, x[0], x[dim], ..., over the first `length` steps of a sequence.
__device__ float PoolOne(const SequencePool& s, const float* x, int64_t length) {
  if (length == 0) return 0.0f;
  if (s.type == PoolType::kFirst) return x[0];
  if (s.type == PoolType::kLast) return x[(length - 1) * s.dim];
  float out = x[0];
  for (int64_t t = 1; t < length; ++t) {
    const float v = x[t * s.dim];
    out = s.type != PoolType::kMax ? out + v : v > out ? v : out;
  }
  return s.type == PoolType::kMax ? out : out * SequencePoolScale(s.type, length);
}

Status Run(SequencePool& state, const KernelArgs& args) {
  const SequencePool s = state;
  const float* x = In<float>(args, 0);
  const int64_t* lengths = In<int64_t>(args, 1);
  float* out = Out<float>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.batch * s.dim, [=] __device__(int64_t i) {
    const int64_t b = Quotient(i, s.dim), d = i - b * s.dim;
    out[i] = PoolOne(s, x + b * s.steps * s.dim + d, LengthOf(s, lengths, b, fault));
  });
}

// Returns the step that gets the whole gradient of an element. -1: each step gets a share.
__device__ int64_t StepOf(const SequencePool& s, const float* x, float y, int64_t length) {
  if (s.type == PoolType::kFirst) return 0;
  if (s.type == PoolType::kLast) return length - 1;
  if (s.type != PoolType::kMax) return -1;
  int64_t t = 0;
  while (t + 1 < length && x[t * s.dim] != y) ++t;
  return t;
}

Status RunGrad(SequencePool& state, const KernelArgs& args) {
  const SequencePool s = state;
  const float *x = In<float>(args, 0), *y = In<float>(args, 2), *g = In<float>(args, 3);
  const int64_t* lengths = In<int64_t>(args, 1);
  float* out = Out<float>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.batch * s.dim, [=] __device__(int64_t i) {
    const int64_t b = Quotient(i, s.dim), first = b * s.steps * s.dim + (i - b * s.dim);
    const int64_t length = LengthOf(s, lengths, b, fault);
    const int64_t only = length == 0 ? -1 : StepOf(s, x + first, y[i], length);
    const float each = length == 0 ? 0.0f : g[i] * SequencePoolScale(s.type, length);
    for (int64_t t = 0; t < s.steps; ++t) {
      const bool takes = t < length && (only < 0 || t == only);
      out[first + t * s.dim] = takes ? each : 0.0f;
    }
  });
}

template <Status (*Body)(SequencePool&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const SequencePool pool, SequencePoolOf(view));
  return MakeKernel<SequencePool, Body>(pool);
}

}  // namespace

std::vector<KernelRegistration> SequencePoolCudaRows() {
  return {{"sequence_pool", {{"cuda", Prepare<Run>}}},
          {"sequence_pool_grad", {{"cuda", Prepare<RunGrad>}}}};
}

}  // namespace tandem::ops
