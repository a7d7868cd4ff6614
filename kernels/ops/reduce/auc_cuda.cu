// CUDA kernel of auc, which is defined in auc.cc.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_reduce.h"

namespace tandem::ops {
namespace {

struct State {
  int64_t rows, columns, buckets;
};

// Computes the area with one block. Each thread processes a part of the buckets; the first thread
// has the highest buckets. All terms are multiples of 1/2, so sums below 2^52 are exact in any
// order.
__global__ void AreaKernel(const int64_t* pos, const int64_t* neg, int64_t buckets, float* area) {
  __shared__ double higher[kCudaThreads];
  const int64_t part = (buckets + kCudaThreads - 1) / kCudaThreads;
  const int64_t end = max(buckets - threadIdx.x * part, int64_t{0});
  const int64_t begin = max(end - part, int64_t{0});
  double mine = 0, false_positive = 0;
  for (int64_t b = begin; b < end; ++b) {
    mine += static_cast<double>(pos[b]);
    false_positive += static_cast<double>(neg[b]);
  }
  higher[threadIdx.x] = mine;
  __syncthreads();
  double true_positive = 0;
  for (unsigned t = 0; t < threadIdx.x; ++t) true_positive += higher[t];
  double sum = 0;
  for (int64_t b = end; b-- > begin;) {
    const auto p = static_cast<double>(pos[b]);
    sum += static_cast<double>(neg[b]) * (true_positive + p / 2);
    true_positive += p;
  }
  const double positives = BlockSum(mine), negatives = BlockSum(false_positive),
               all = BlockSum(sum);
  if (threadIdx.x != 0) return;
  const bool both = positives != 0 && negatives != 0;
  *area = both ? static_cast<float>(all / (positives * negatives)) : 0.5f;
}

Status Run(State& state, const KernelArgs& args) {
  const State s = state;
  const float* predict = In<float>(args, 0);
  const int64_t* labels = In<int64_t>(args, 1);
  int64_t *pos = Out<int64_t>(args, 1), *neg = Out<int64_t>(args, 2);
  const size_t bytes = static_cast<size_t>(s.buckets) * sizeof(int64_t);
  TD_RETURN_IF_ERROR(CopyOnDevice(args, pos, args.in[2], bytes));
  TD_RETURN_IF_ERROR(CopyOnDevice(args, neg, args.in[3], bytes));
  const CudaStream& stream = StreamOf(args);
  CudaFault* fault = stream.fault;
  TD_RETURN_IF_ERROR(ForEach(args, s.rows, [=] __device__(int64_t r) {
    const float p = predict[r * s.columns + s.columns - 1];
    if (!(p >= 0.0f && p <= 1.0f)) return Blame(fault, CudaFault::kProbability, r, 0, 0);
    const int64_t label = labels[r];
    if (label != 0 && label != 1) return Blame(fault, CudaFault::kLabel, r, label, 2);
    const auto bucket = static_cast<int64_t>(p * static_cast<float>(s.buckets - 1));
    int64_t* const count = (label == 1 ? pos : neg) + bucket;
    atomicAdd(reinterpret_cast<unsigned long long*>(count), 1ULL);
  }));
  return Launch(args, 1, kCudaThreads, AreaKernel, pos, neg, s.buckets, Out<float>(args, 0));
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  return MakeKernel<State, Run>({view.in(0).shape[0], view.in(0).shape[1], view.in(2).shape[0]});
}

}  // namespace

std::vector<KernelRegistration> AucCudaRows() { return {{"auc", {{"cuda", Prepare}}}}; }

}  // namespace tandem::ops
