#include <algorithm>

#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/rows/lookup_table.h"
#include "kernels/ops/rows/row_merger.h"
#include "kernels/ops/rows/sparse_rows.h"

namespace tandem::ops {
namespace {

struct State {
  const Loops& loops;
  LookupShape shape;
  int parts;
};

std::span<const int64_t> Ids(const State& s, const KernelArgs& args) {
  return {static_cast<const int64_t*>(args.in[0]), static_cast<size_t>(s.shape.count)};
}

Status Run(State& s, const KernelArgs& args) {
  const auto ids = Ids(s, args);
  TD_RETURN_IF_ERROR(CheckIds(ids, s.shape.rows));
  const int64_t dim = s.shape.dim;
  const float* table = InF32(args, 1);
  ParallelFor(s.parts, s.shape.count, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < end) PrefetchRow(table + ids[i + kRowsAhead] * dim, dim);
      float* out = OutF32(args, 0) + i * dim;
      if (ids[i] == s.shape.padding_idx) {
        std::fill_n(out, dim, 0.0f);
      } else {
        std::copy_n(table + ids[i] * dim, dim, out);
      }
    }
  });
  return OkStatus();
}

// Computes the dense gradient of the table. Each thread reads all ids and adds only to its own
// range of rows. Therefore the number of threads does not change the order of the additions to a
// row.
Status RunGrad(State& s, const KernelArgs& args) {
  const auto ids = Ids(s, args);
  TD_RETURN_IF_ERROR(CheckIds(ids, s.shape.rows));
  const int64_t dim = s.shape.dim;
  float* out = OutF32(args, 0);
  ParallelFor(s.parts, s.shape.rows, [&](int, int64_t begin, int64_t end) {
    std::fill(out + begin * dim, out + end * dim, 0.0f);
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t row = ids[i];
      if (row < begin || row >= end || row == s.shape.padding_idx) continue;
      const float* g = InF32(args, 2) + static_cast<int64_t>(i) * dim;
      s.loops.add(out + row * dim, g, out + row * dim, dim);
    }
  });
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const LookupShape shape, LookupShapeOf(view));
  TD_REQUIRE(shape.count >= 0 && shape.rows >= 0 && shape.dim >= 0);
  const int64_t cost =
      RowsCost(shape.count, shape.dim) + (Body == RunGrad ? shape.rows * shape.dim : 0);
  return MakeKernel<State, Body>({BestLoops(), shape, PartsFor(ctx.threads, cost)});
}

struct SparseState {
  LookupShape shape;
  RowMerger merger;
};

Status RunSparseGrad(SparseState& s, const KernelArgs& args) {
  const std::span ids(static_cast<const int64_t*>(args.in[0]), static_cast<size_t>(s.shape.count));
  TD_RETURN_IF_ERROR(CheckIds(ids, s.shape.rows));
  s.merger.Begin(args.scratch);
  const float* g = InF32(args, 2);
  for (const int64_t id : ids) {
    if (id != s.shape.padding_idx) s.merger.Add(id, g);
    g += s.shape.dim;
  }
  s.merger.Finish(static_cast<int64_t*>(args.out[1]), OutF32(args, 0),
                  std::min(s.shape.count, s.shape.rows));
  return OkStatus();
}

StatusOr<Kernel> PrepareSparseGrad(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const LookupShape shape, LookupShapeOf(view));
  if (shape.rows >= int64_t{1} << 32)
    return Unimplemented("this kernel does not support a local table of 2^32 rows or more");
  const RowMerger merger(shape.count, shape.rows, shape.dim,
                         PartsFor(ctx.threads, RowsCost(shape.count, shape.dim)));
  return MakeKernel<SparseState, RunSparseGrad>({shape, merger}, merger.scratch_bytes());
}

}  // namespace

constinit const KernelList kLookupTableCpu = {{"plain", Prepare<Run>}};
constinit const KernelList kLookupTableGradCpu = {{"vector", Prepare<RunGrad>}};
constinit const KernelList kLookupTableSparseGradCpu = {{"vector", PrepareSparseGrad}};

}  // namespace tandem::ops
