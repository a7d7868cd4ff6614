// CUDA kernels of lookup_table, which is defined in lookup_table.cc.
#include "kernels/ops/cuda/cuda_kernels.h"
#include "kernels/ops/cuda/cuda_launch.h"
#include "kernels/ops/rows/lookup_table.h"
#include "kernels/ops/rows/sparse_rows_cuda.h"

namespace tandem::ops {
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

struct GradState {
  State s;
  CudaRowSort sort;
};

// Writes the gradient as a list of rows. The list is sorted before equal rows are added. Therefore
// the order in which blocks run has no effect on the sums.
Status ListRows(const GradState& st, const KernelArgs& args, const CudaRowList& list) {
  const State s = st.s;
  const int64_t* ids = In<int64_t>(args, 0);
  const float* g = In<float>(args, 2);
  CudaFault* fault = StreamOf(args).fault;
  return ForEach(args, s.count, [=] __device__(int64_t i) {
    const int64_t id = ids[i];
    const bool there = id >= 0 && id < s.rows;
    if (!there) Blame(fault, CudaFault::kIds, i, id, s.rows);
    list.rows[i] = static_cast<uint64_t>(there && id != s.padding ? id : s.rows);
    list.values[i] = g + i * s.dim;
  });
}

Status RunGrad(GradState& st, const KernelArgs& args) {
  const CudaRowList list = st.sort.In(args.scratch);
  float* out = Out<float>(args, 0);
  const int64_t dim = st.s.dim;
  TD_RETURN_IF_ERROR(ZeroOnDevice(args, out, static_cast<size_t>(st.s.rows * dim) * sizeof(float)));
  TD_RETURN_IF_ERROR(ListRows(st, args, list));
  TD_RETURN_IF_ERROR(st.sort.Sort(args, list));
  return st.sort.AddUp(args, list, dim, [=] __device__(int64_t, int64_t row, int64_t d, float sum) {
    out[row * dim + d] = sum;
  });
}

Status RunSparseGrad(GradState& st, const KernelArgs& args) {
  const CudaRowList list = st.sort.In(args.scratch);
  TD_RETURN_IF_ERROR(ListRows(st, args, list));
  return st.sort.Merge(args, list, st.s.dim, std::min(st.s.count, st.s.rows), Out<int64_t>(args, 1),
                       Out<float>(args, 0));
}

template <Status (*Body)(GradState&, const KernelArgs&)>
StatusOr<Kernel> PrepareGrad(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, LookupShapeOf(view));
  const CudaRowSort sort(s.count, s.rows);
  return MakeKernel<GradState, Body>({{s.count, s.rows, s.dim, s.padding_idx}, sort},
                                     sort.scratch_bytes());
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext&) {
  TD_ASSIGN_OR_RETURN(const LookupShape s, LookupShapeOf(view));
  return MakeKernel<State, Run>({s.count, s.rows, s.dim, s.padding_idx});
}

}  // namespace

std::vector<KernelRegistration> LookupCudaRows() {
  return {{"lookup_table", {{"cuda", Prepare}}},
          {"lookup_table_grad", {{"cuda", PrepareGrad<RunGrad>}}},
          {"lookup_table_sparse_grad", {{"cuda", PrepareGrad<RunSparseGrad>}}}};
}

}  // namespace tandem::ops
