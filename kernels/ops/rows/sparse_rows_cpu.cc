#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/require.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/rows/row_merger.h"
#include "kernels/ops/rows/sparse_rows.h"

namespace tandem::ops {
namespace {

struct SumState {
  RowMerger merger;
  std::vector<int64_t> counts;  // for each input pair: its number of rows
  int64_t height, dim, n;
};

Status RunSum(SumState& s, const KernelArgs& args) {
  s.merger.Begin(args.scratch);
  for (size_t pair = 0; pair < s.counts.size(); ++pair) {
    const auto* rows = static_cast<const int64_t*>(args.in[2 * pair + 1]);
    TD_ASSIGN_OR_RETURN(const int64_t count,
                        CheckSparseRows({rows, static_cast<size_t>(s.counts[pair])}, s.height));
    const float* values = static_cast<const float*>(args.in[2 * pair]);
    for (int64_t i = 0; i < count; ++i) s.merger.Add(rows[i], values + i * s.dim);
  }
  s.merger.Finish(static_cast<int64_t*>(args.out[1]), OutF32(args, 0), s.n);
  return OkStatus();
}

StatusOr<Kernel> PrepareSum(const OpView& view, const PrepareContext& ctx) {
  TD_REQUIRE(view.in_count() >= 2 && view.in_count() % 2 == 0);
  std::vector<int64_t> counts;
  int64_t total = 0;
  for (size_t i = 0; i < view.in_count(); i += 2) {
    counts.push_back(view.in(i).shape[0]);
    TD_REQUIRE(view.in(i + 1).dtype == DType::kI64 && view.in(i + 1).shape[0] == counts.back());
    total += counts.back();
  }
  const int64_t height = view.attr<int64_t>("height"), dim = view.in(0).shape[1];
  const RowMerger merger(total, height, dim, PartsFor(ctx.threads, RowsCost(total, dim)));
  return MakeKernel<SumState, RunSum>(
      {merger, std::move(counts), height, dim, std::min(total, height)}, merger.scratch_bytes());
}

struct DenseState {
  int64_t count, height, dim;
};

Status RunDense(DenseState& s, const KernelArgs& args) {
  const auto* rows = static_cast<const int64_t*>(args.in[1]);
  TD_ASSIGN_OR_RETURN(const int64_t count,
                      CheckSparseRows({rows, static_cast<size_t>(s.count)}, s.height));
  std::fill_n(OutF32(args, 0), s.height * s.dim, 0.0f);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(InF32(args, 0) + i * s.dim, s.dim, OutF32(args, 0) + rows[i] * s.dim);
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareDense(const OpView& view, const PrepareContext&) {
  const Shape& values = view.in(0).shape;
  TD_REQUIRE(values.rank() == 2 && view.in(1).shape[0] == values[0]);
  TD_REQUIRE(view.out(0).shape == Shape({view.attr<int64_t>("height"), values[1]}));
  return MakeKernel<DenseState, RunDense>({values[0], view.attr<int64_t>("height"), values[1]});
}

}  // namespace

constinit const KernelList kSumSparseRowsCpu = {{"vector", PrepareSum}};
constinit const KernelList kSparseRowsToDenseCpu = {{"plain", PrepareDense}};

}  // namespace tandem::ops
