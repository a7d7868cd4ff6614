// CUDA kernels of lookup_table; definitions in lookup_table.cc.
#include "kernels/ops/cuda_kernels.h"
#include "kernels/ops/cuda_launch.h"
#include "kernels/ops/lookup_table.h"
#include "kernels/ops/sparse_rows_cuda.h"

namespace tandem {
namespace {

struct State {
  int64_t count, rows, dim, padding;
};

Status Run(State& st, const KernelArgs& args) {
  const State s = st;
  const int64_t* ids = In<int64_t>(args, 0);
  const float* table = In<float>(args, 1);
  float* out = Out<float>(args, 0);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.count * s.dim, [=] __device__(int64_t i) {
    const int64_t at = Quotient(i, s.dim), id = ids[at];
    const bool there = id >= 0 && id < s.rows;
    if (!there) Blame(fault, CudaFault::kIds, at, id, s.rows);
    out[i] = there && id != s.padding ? table[id * s.dim + (i - at * s.dim)] : 0.0f;
  });
}

// A block takes an element of Ids; that of the first of equal ids adds up the gradients of all, in
// order, so that it does not matter which blocks run when.
__global__ void GradKernel(State s, const int64_t* ids, const float* g, float* out,
                           CudaFault* fault) {
  for (int64_t first = blockIdx.x; first < s.count; first += gridDim.x) {
    const int64_t id = ids[first];
    if (id == s.padding) continue;
    if (id < 0 || id >= s.rows) {
      if (threadIdx.x == 0) Blame(fault, CudaFault::kIds, first, id, s.rows);
      continue;
    }
    bool before = false;
    for (int64_t i = threadIdx.x; i < first; i += blockDim.x) before |= ids[i] == id;
    if (__syncthreads_or(before)) continue;
    for (int64_t d = threadIdx.x; d < s.dim; d += blockDim.x) {
      float sum = 0.0f;
      for (int64_t i = first; i < s.count; ++i) {
        if (ids[i] == id) sum += g[i * s.dim + d];
      }
      out[id * s.dim + d] = sum;
    }
  }
}

Status RunGrad(State& s, const KernelArgs& args) {
  const CudaStream& stream = StreamOf(args);
  float* out = Out<float>(args, 0);
  const size_t bytes = static_cast<size_t>(s.rows * s.dim) * sizeof(float);
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, out, bytes));
  if (s.count == 0) return OkStatus();
  return Launch(args, CudaBlocks(s.count, 1), kCudaThreads, GradKernel, s, In<int64_t>(args, 0),
                In<float>(args, 2), out, stream.fault);
}

Status RunSparseGrad(State& st, const KernelArgs& args) {
  const State s = st;
  const int64_t* ids = In<int64_t>(args, 0);
  const float* g = In<float>(args, 2);
  const CudaRowScratch scratch(args.scratch, s.count);
  CudaRow* list = scratch.list;
  CudaFault* fault = StreamOf(args).fault;
  TD_RETURN_IF_ERROR(ForEach(args, s.count, [=] __device__(int64_t i) {
    const int64_t id = ids[i];
    const bool there = id >= 0 && id < s.rows;
    if (!there) Blame(fault, CudaFault::kIds, i, id, s.rows);
    list[i] = {there && id != s.padding ? id : -1, g + i * s.dim};
  }));
  return MergeRows(args, scratch, s.count, s.dim, std::min(s.count, s.rows), Out<int64_t>(args, 1),
                   Out<float>(args, 0));
}

StatusOr<Kernel> PrepareSparseGrad(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, LookupShapeOf(view));
  return MakeKernel<State, RunSparseGrad>({s.count, s.rows, s.dim, s.padding_idx},
                                          CudaRowScratch::Bytes(s.count));
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, LookupShapeOf(view));
  return MakeKernel<State, Body>({s.count, s.rows, s.dim, s.padding_idx});
}

}  // namespace

std::vector<KernelRow> LookupCudaRows() {
  return {{"lookup_table", {{"cuda", Prepare<Run>}}},
          {"lookup_table_grad", {{"cuda", Prepare<RunGrad>}}},
          {"lookup_table_sparse_grad", {{"cuda", PrepareSparseGrad}}}};
}

}  // namespace tandem
