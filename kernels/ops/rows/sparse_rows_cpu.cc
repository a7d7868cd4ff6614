#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/rows/sparse_rows.h"

namespace tandem {
namespace {

constexpr int kDigitBits = 11;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;

}  // namespace

size_t RowMerger::scratch_bytes() const {
  return 2 * count_ * sizeof(Entry) + (count_ + 1 + kDigits) * sizeof(int64_t);
}

void RowMerger::Begin(void* scratch) {
  entries_ = static_cast<Entry*>(scratch);
  other_ = entries_ + count_;
  begin_ = reinterpret_cast<int64_t*>(other_ + count_);
  histogram_ = begin_ + count_ + 1;
  added_ = 0;
}

void RowMerger::Add(int64_t row, const float* values) { entries_[added_++] = {row, values}; }

// Radix sort from the lowest digit. It is stable, so entries of equal rows keep their order.
void RowMerger::Sort() {
  const int bits = std::bit_width(static_cast<uint64_t>(height_ - 1));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    const auto digit = [shift](const Entry& e) { return (e.row >> shift) & (kDigits - 1); };
    std::fill_n(histogram_, kDigits, 0);
    for (int64_t i = 0; i < added_; ++i) ++histogram_[digit(entries_[i])];
    int64_t total = 0;
    for (int64_t d = 0; d < kDigits; ++d) total += std::exchange(histogram_[d], total);
    for (int64_t i = 0; i < added_; ++i) other_[histogram_[digit(entries_[i])]++] = entries_[i];
    std::swap(entries_, other_);
  }
}

void RowMerger::Finish(int64_t* rows, float* values, int64_t n) {
  Sort();
  int64_t unique = 0;
  for (int64_t i = 0; i < added_; ++i) {
    if (i > 0 && entries_[i].row == entries_[i - 1].row) continue;
    begin_[unique] = i;
    rows[unique++] = entries_[i].row;
  }
  begin_[unique] = added_;
  std::fill(rows + unique, rows + n, -1);
  const Loops& loops = BestLoops();
  ParallelFor(parts_, n, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* out = values + r * dim_;
      std::fill_n(out, dim_, 0.0f);
      if (r >= unique) continue;
      for (int64_t i = begin_[r]; i < begin_[r + 1]; ++i) {
        loops.add(out, entries_[i].values, out, dim_);
      }
    }
  });
}

namespace {

struct SumState {
  RowMerger merger;
  std::vector<int64_t> counts;  // number of rows of each pair
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
  std::vector<int64_t> counts;
  int64_t total = 0;
  for (size_t i = 0; i < view.in_count(); i += 2) {
    counts.push_back(view.in(i).shape[0]);
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
  return MakeKernel<DenseState, RunDense>({values[0], view.attr<int64_t>("height"), values[1]});
}

}  // namespace

std::vector<KernelImpl> SumSparseRowsCpu() { return {{"vector", PrepareSum}}; }
std::vector<KernelImpl> SparseRowsToDenseCpu() { return {{"plain", PrepareDense}}; }

}  // namespace tandem
