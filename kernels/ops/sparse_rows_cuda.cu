// CUDA kernels of sparse gradients; definitions in sparse_rows.cc.
#include "kernels/ops/sparse_rows_cuda.h"

#include "kernels/ops/cuda_kernels.h"

namespace tandem {
namespace {

// A block takes a row of the list.
__global__ void FirstKernel(CudaRowScratch s, int64_t count) {
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const int64_t row = s.list[i].row;
    bool before = false;
    for (int64_t k = threadIdx.x; k < i; k += blockDim.x) before |= s.list[k].row == row;
    const bool same = __syncthreads_or(before);
    if (threadIdx.x == 0) s.first[i] = row >= 0 && !same;
  }
}

// Its place is the number of different rows that are smaller.
__global__ void MergeKernel(CudaRowScratch s, int64_t count, int64_t dim, int64_t* rows,
                            float* values) {
  __shared__ unsigned long long smaller;
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    if (s.first[i] == 0) continue;  // for the whole block
    const int64_t row = s.list[i].row;
    if (threadIdx.x == 0) smaller = 0;
    __syncthreads();
    unsigned long long mine = 0;
    for (int64_t k = threadIdx.x; k < count; k += blockDim.x) {
      mine += s.first[k] != 0 && s.list[k].row < row ? 1 : 0;
    }
    atomicAdd(&smaller, mine);
    __syncthreads();
    const auto place = static_cast<int64_t>(smaller);
    if (threadIdx.x == 0) rows[place] = row;
    for (int64_t d = threadIdx.x; d < dim; d += blockDim.x) {
      float sum = 0.0f;
      for (int64_t k = i; k < count; ++k) {
        if (s.list[k].row == row) sum += s.list[k].values[d];
      }
      values[place * dim + d] = sum;
    }
    __syncthreads();  // all have read `smaller`
  }
}

}  // namespace

Status MergeRows(const KernelArgs& args, const CudaRowScratch& scratch, int64_t count, int64_t dim,
                 int64_t n, int64_t* rows, float* values) {
  TD_RETURN_IF_ERROR(ForEach(args, n, [=] __device__(int64_t i) { rows[i] = -1; }));
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, values, static_cast<size_t>(n * dim) * sizeof(float)));
  if (count == 0) return OkStatus();
  const unsigned blocks = CudaBlocks(count, 1);
  TD_RETURN_IF_ERROR(Launch(args, blocks, kCudaThreads, FirstKernel, scratch, count));
  return Launch(args, blocks, kCudaThreads, MergeKernel, scratch, count, dim, rows, values);
}

namespace {

struct SumState {
  std::vector<int64_t> counts;  // rows of each pair
  int64_t total, height, dim, n;
};

Status RunSum(SumState& s, const KernelArgs& args) {
  const CudaRowScratch scratch(args.scratch, s.total);
  CudaFault* fault = StreamOf(args).fault;
  int64_t at = 0;
  for (size_t pair = 0; pair < s.counts.size(); ++pair) {
    const float* values = In<float>(args, static_cast<int>(2 * pair));
    const int64_t* rows = In<int64_t>(args, static_cast<int>(2 * pair + 1));
    const int64_t dim = s.dim, height = s.height;
    CudaRow* list = scratch.list + at;
    TD_RETURN_IF_ERROR(ForEach(args, s.counts[pair], [=] __device__(int64_t i) {
      const bool there = rows[i] >= 0 && rows[i] < height;
      if (!there && rows[i] != -1) Blame(fault, CudaFault::kRows, i, rows[i], height);
      list[i] = {there ? rows[i] : -1, values + i * dim};
    }));
    at += s.counts[pair];
  }
  return MergeRows(args, scratch, s.total, s.dim, s.n, Out<int64_t>(args, 1), Out<float>(args, 0));
}

StatusOr<Kernel> PrepareSum(const OpView& view, const PrepareContext&) {
  SumState s{{}, 0, view.attr<int64_t>("height"), view.in(0).shape[1], 0};
  for (size_t i = 0; i < view.in_count(); i += 2) {
    s.counts.push_back(view.in(i).shape[0]);
    s.total += s.counts.back();
  }
  s.n = std::min(s.total, s.height);
  const size_t scratch = CudaRowScratch::Bytes(s.total);
  return MakeKernel<SumState, RunSum>(std::move(s), scratch);
}

struct DenseState {
  int64_t count, height, dim;
};

Status RunDense(DenseState& state, const KernelArgs& args) {
  const DenseState s = state;
  const float* values = In<float>(args, 0);
  const int64_t* rows = In<int64_t>(args, 1);
  float* out = Out<float>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  TD_RETURN_IF_ERROR(
      ZeroOnDevice(args, out, static_cast<size_t>(s.height * s.dim) * sizeof(float)));
  return ForEach(args, s.count * s.dim, [=] __device__(int64_t i) {
    const int64_t k = Quotient(i, s.dim), row = rows[k];
    if (row < 0) return;
    if (row >= s.height) return Blame(fault, CudaFault::kRows, k, row, s.height);
    out[row * s.dim + (i - k * s.dim)] = values[i];
  });
}

StatusOr<Kernel> PrepareDense(const OpView& view, const PrepareContext&) {
  const Shape& values = view.in(0).shape;
  return MakeKernel<DenseState, RunDense>({values[0], view.attr<int64_t>("height"), values[1]});
}

}  // namespace

std::vector<KernelRow> SparseRowsCudaRows() {
  return {{"sum_sparse_rows", {{"cuda", PrepareSum}}},
          {"sparse_rows_to_dense", {{"cuda", PrepareDense}}}};
}

}  // namespace tandem
