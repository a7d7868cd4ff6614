#include "kernels/ops/update/optimizer_cpu.h"

#include <algorithm>

#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/rows/sparse_rows.h"

namespace tandem::ops {
namespace {

// Returns pointers to elements [begin, end) of the parameter and its slots. `g`: address of the
// gradient of element `begin`.
UpdateRun RunOf(const UpdateState& s, const KernelArgs& a, const float* g, int64_t begin,
                int64_t end) {
  UpdateRun run{.p = InF32(a, 0) + begin,
                .g = g,
                .s = {},
                .po = OutF32(a, 0) + begin,
                .so = {},
                .n = end - begin};
  for (size_t i = 0; i < s.full; ++i) {
    if (a.in[2 + i] == nullptr) continue;  // skip an absent optional slot
    run.s[i] = InF32(a, static_cast<int>(2 + i)) + begin;
    run.so[i] = OutF32(a, static_cast<int>(1 + i)) + begin;
  }
  return run;
}

// Prefetches row `row` of the parameter and of its slots, which may be large matrices.
void PrefetchRows(const UpdateState& s, const KernelArgs& a, int64_t row) {
  for (size_t i = 0; i <= s.full; ++i) {
    if (a.out[i] != nullptr) PrefetchRow(static_cast<float*>(a.out[i]) + row * s.dim, s.dim);
  }
}

// Copies the inputs to the outputs, except outputs that share memory with their input. In programs,
// outputs usually share the memory of their inputs.
void CopyThrough(const UpdateState& s, const KernelArgs& a) {
  for (size_t i = 0; i <= s.full; ++i) {
    const void* in = a.in[i == 0 ? 0 : 1 + i];
    if (in == nullptr || a.out[i] == in) continue;
    std::copy_n(static_cast<const float*>(in), s.n, static_cast<float*>(a.out[i]));
  }
}

Status RunSparse(const UpdateState& s, const UpdateArgs& args, const KernelArgs& a) {
  const int64_t height = s.dim == 0 ? 0 : s.n / s.dim;
  const std::span rows(static_cast<const int64_t*>(a.in[RowsAt(s.slots)]),
                       static_cast<size_t>(s.count));
  TD_ASSIGN_OR_RETURN(const int64_t count, CheckSparseRows(rows, height));
  const auto update_row = [&](int64_t i) {
    const int64_t at = rows[i] * s.dim;
    s.loop(args, RunOf(s, a, InF32(a, 1) + i * s.dim, at, at + s.dim));
  };
  if (!s.every_row) {
    CopyThrough(s, a);
    ParallelFor(s.parts, count, [&](int, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i + kRowsAhead < end) PrefetchRows(s, a, rows[i + kRowsAhead]);
        update_row(i);
      }
    });
    return OkStatus();
  }
  const int64_t block = s.dim == 0 ? 1 : static_cast<int64_t>(s.zeros.size()) / s.dim;
  ParallelFor(s.parts, height, [&](int, int64_t begin, int64_t end) {
    int64_t i = std::lower_bound(rows.begin(), rows.begin() + count, begin) - rows.begin();
    for (int64_t row = begin; row < end;) {
      if (i < count && rows[i] == row) {
        update_row(i++);
        ++row;
        continue;
      }
      const int64_t next = i < count ? std::min(rows[i], end) : end;
      const int64_t stop = std::min(next, row + block);
      s.loop(args, RunOf(s, a, s.zeros.data(), row * s.dim, stop * s.dim));
      row = stop;
    }
  });
  return OkStatus();
}

}  // namespace

StatusOr<UpdateState> MakeUpdate(const OpView& view, const PrepareContext& ctx, UpdateFn loop,
                                 const UpdateArgs& args, int scalars) {
  constexpr int64_t kZeros = 1024;
  UpdateState s{.loop = loop, .args = args, .slots = SlotsOf(view)};
  TD_REQUIRE(loop != nullptr && scalars >= 0 && static_cast<size_t>(scalars) <= s.slots);
  TD_REQUIRE(view.in(LearningRateAt(s.slots)).shape.numel() == 1);
  s.full = s.slots - static_cast<size_t>(scalars);
  TD_REQUIRE(s.full <= size_t{kUpdateSlotsMax});
  for (size_t i = 0; i < s.slots; ++i) {
    if (view.has_in(2 + i) != view.has_out(1 + i)) {
      return view.Error(absl::StrFormat("slot %d must be either an input or an output", i));
    }
  }
  s.n = view.in(0).shape.numel();
  int64_t touched = s.n;
  s.sparse = view.has_in(RowsAt(s.slots));
  TD_REQUIRE(s.sparse || view.in(1).shape.numel() == s.n);
  if (s.sparse) {
    s.count = view.in(1).shape[0];
    s.dim = view.in(1).shape[1];
    TD_REQUIRE(view.in(RowsAt(s.slots)).shape[0] == s.count && s.dim == view.in(0).shape[1]);
    s.every_row = UpdatesEveryRow(view);
    if (!s.every_row) touched = RowsCost(s.count, s.dim);
    if (s.every_row) s.zeros.resize(static_cast<size_t>(std::max(kZeros, s.dim)));
  }
  s.parts = PartsFor(ctx.threads, static_cast<int64_t>(1 + s.full) * touched);
  return s;
}

Status RunUpdate(const UpdateState& s, const UpdateArgs& args, const KernelArgs& a) {
  if (s.sparse) return RunSparse(s, args, a);
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    s.loop(args, RunOf(s, a, InF32(a, 1) + begin, begin, end));
  });
  return OkStatus();
}

Status RunPlainUpdate(UpdateState& s, const KernelArgs& a) {
  UpdateArgs args = s.args;
  args.lr = s.lr(a);
  return RunUpdate(s, args, a);
}

}  // namespace tandem::ops
