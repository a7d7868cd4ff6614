#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/formulas/dgc.h"
#include "kernels/ops/update/dgc.h"
#include "kernels/ops/update/optimizer_cpu.h"

namespace tandem::ops {
namespace {

// Number of elements that are updated at a time. The elements are still in the L1 cache when their
// digits are counted.
constexpr int64_t kBlock = 4096;

// The results of one thread for its part of the elements.
struct Part {
  // By value of the digit at the current level: the number of elements.
  std::array<int32_t, kDgcDigitsMax> counts{};
  // The number of elements above the threshold, and the number of elements equal to the threshold.
  int64_t above = 0, equal = 0;
};

struct CompressState {
  UpdateFn loop;
  UpdateArgs args;
  int64_t n, capacity;
  std::vector<Part> parts;
};

// The limit between selected and unsent elements. magnitude: the smallest magnitude that is sent.
// ties: number of elements of this magnitude that are sent.
struct Cut {
  uint32_t magnitude = 0;
  int64_t ties = 0;
};

void Count(const float* x, int64_t n, const DgcLevel& level, uint32_t higher, Part& part) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t digit = 0;
    if (level.Digit(DgcMagnitude(x[i]), higher, &digit)) ++part.counts[digit];
  }
}

// Updates the optimizer's velocity and the residual, which is the sum of all velocities that were
// not sent. Also counts the first digits of the residual. The update of the residual is a momentum
// step with learning rate -1.
void Accumulate(CompressState& s, const KernelArgs& args) {
  ParallelFor(static_cast<int>(s.parts.size()), s.n, [&](int p, int64_t begin, int64_t end) {
    Part& part = s.parts[static_cast<size_t>(p)];
    part = {};
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t n = std::min(kBlock, end - at);
      UpdateRun run = {.p = InF32(args, 2) + at, .g = InF32(args, 0) + at, .n = n};
      run.s[0] = InF32(args, 1) + at;
      run.po = OutF32(args, 1) + at;
      run.so[0] = OutF32(args, 0) + at;
      s.loop(s.args, run);
      Count(run.po, n, kDgcLevels[0], 0, part);
    }
  });
}

void CountAll(CompressState& s, const float* residual, const DgcLevel& level, uint32_t higher) {
  ParallelFor(static_cast<int>(s.parts.size()), s.n, [&](int p, int64_t begin, int64_t end) {
    Part& part = s.parts[static_cast<size_t>(p)];
    part.counts.fill(0);
    part.equal = 0;
    Count(residual + begin, end - begin, level, higher, part);
  });
}

// Returns the digit of the threshold at this level. Digits are visited from the highest down until
// `left` elements have been counted. Subtracts from `left` the number of elements with higher
// digits. For each part, adds to `above` the number of elements with higher digits, and to `equal`
// the number of elements with this digit. REQUIRES: at least `left` elements were counted.
uint32_t TakeDigit(CompressState& s, const DgcLevel& level, int64_t& left) {
  for (uint32_t digit = (1U << level.bits) - 1;; --digit) {
    int64_t here = 0;
    for (const Part& part : s.parts) here += part.counts[digit];
    const bool reached = here >= left;
    if (!reached) left -= here;
    for (Part& part : s.parts) (reached ? part.equal : part.above) += part.counts[digit];
    if (reached) return digit;
    TD_REQUIRE(digit > 0);  // cannot fail, because at least `left` elements were counted
  }
}

// Returns the smallest of the k largest magnitudes in `residual`, and the number of elements of
// this magnitude that belong to the k largest. REQUIRES: 1 <= k <= n, and Accumulate has counted
// the first digits.
Cut FindCut(CompressState& s, const float* residual, int64_t k) {
  TD_REQUIRE(k >= 1 && k <= s.n);
  Cut cut{0, k};
  for (int i = 0; i < kDgcLevelCount; ++i) {
    const DgcLevel& level = kDgcLevels[i];
    if (i > 0) CountAll(s, residual, level, cut.magnitude);
    cut.magnitude = cut.magnitude << level.bits | TakeDigit(s, level, cut.ties);
  }
  return cut;
}

// Writes the selected elements to `selected` and sets them to 0 in `velocity` and `residual`.
void Select(CompressState& s, const Cut& cut, int64_t k, float* velocity, float* residual,
            int32_t* selected) {
  // Each part writes its elements after those of the previous parts. `above` becomes the position
  // where the part writes. `equal` becomes the number of elements equal to the threshold that the
  // part sends.
  int64_t at = 0, ties = cut.ties;
  for (Part& part : s.parts) {
    const int64_t above = part.above;
    part.equal = std::min(part.equal, ties);
    ties -= part.equal;
    part.above = at;
    at += above + part.equal;
  }
  int32_t* indices = selected + 1;
  int32_t* values = indices + k;
  ParallelFor(static_cast<int>(s.parts.size()), s.n, [&](int p, int64_t begin, int64_t end) {
    const Part& part = s.parts[static_cast<size_t>(p)];
    int64_t to = part.above, equal = part.equal;
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t magnitude = DgcMagnitude(residual[i]);
      if (magnitude < cut.magnitude) continue;
      if (magnitude == cut.magnitude && equal-- <= 0) continue;
      indices[to] = static_cast<int32_t>(i);
      values[to++] = std::bit_cast<int32_t>(residual[i]);
      residual[i] = velocity[i] = 0.0f;
    }
  });
}

Status RunCompress(CompressState& s, const KernelArgs& args) {
  auto* selected = static_cast<int32_t*>(args.out[2]);
  const float sparsity = *InF32(args, 3);
  if (!(sparsity >= 0 && sparsity < 1)) {
    return InvalidArgument("dgc: Sparsity is %g, expected at least 0 and below 1", sparsity);
  }
  const int64_t k = SelectedOf(s.n, sparsity);
  if (k > s.capacity) {
    return InvalidArgument("dgc: Sparsity %g selects %d elements, but attribute capacity is %d",
                           sparsity, k, s.capacity);
  }
  selected[0] = static_cast<int32_t>(k);
  std::fill(selected + SelectionWords(k), selected + SelectionWords(s.capacity), 0);
  if (k == 0) return OkStatus();
  Accumulate(s, args);
  float* residual = OutF32(args, 1);
  Select(s, FindCut(s, residual, k), k, OutF32(args, 0), residual, selected);
  return OkStatus();
}

StatusOr<Kernel> PrepareCompress(const OpView& view, const PrepareContext& ctx) {
  CompressState state = {
      .loop = BestUpdateLoops().momentum,
      .args = {.lr = -1, .mu = AttrF32(view, "mu"), .nesterov = view.attr<bool>("use_nesterov")},
      .n = view.in(0).shape.numel(),
      .capacity = view.attr<int64_t>("capacity"),
      .parts = {}};
  state.parts.resize(static_cast<size_t>(PartsFor(ctx.threads, 4 * state.n)));
  TD_REQUIRE(state.capacity >= std::min<int64_t>(state.n, 1) && !state.parts.empty());
  return MakeKernel<CompressState, RunCompress>(std::move(state));
}

struct AddState {
  int64_t n, rows, words;
};

// Adds the elements of a selection to the parameter. Selections come from other ranks, so
// AddSelection checks them. INVALID_ARGUMENT: the number of elements is invalid, or the indices do
// not ascend or are out of range.
Status AddSelection(const AddState& s, const int32_t* selection, float lr, float* param) {
  const int64_t k = selection[0];
  if (k < 0 || SelectionWords(k) > s.words) {
    return InvalidArgument("dgc: a selection has %d elements, expected at most %d", k, s.words / 2);
  }
  const int32_t* indices = selection + 1;
  int64_t last = -1;
  for (int64_t j = 0; j < k; ++j) {
    const int64_t i = indices[j];
    if (i <= last || i >= s.n) {
      return InvalidArgument(
          "dgc: index %d follows index %d in a selection of %d elements, but indices must ascend",
          i, last, s.n);
    }
    last = i;
    param[i] -= lr * std::bit_cast<float>(indices[k + j]);
  }
  return OkStatus();
}

Status RunAdd(AddState& s, const KernelArgs& args) {
  float* param = OutF32(args, 0);
  if (param != InF32(args, 0) && s.n > 0) {
    std::memcpy(param, InF32(args, 0), static_cast<size_t>(s.n) * sizeof(float));
  }
  const auto* selections = static_cast<const int32_t*>(args.in[1]);
  const float lr = *InF32(args, 2);
  for (int64_t r = 0; r < s.rows; ++r) {
    TD_RETURN_IF_ERROR(AddSelection(s, selections + r * s.words, lr, param));
  }
  return OkStatus();
}

StatusOr<Kernel> PrepareUpdate(const OpView& view, const PrepareContext&) {
  const Shape& shape = view.in(1).shape;
  TD_REQUIRE(shape.rank() == 2 && view.in(1).dtype == DType::kI32);
  return MakeKernel<AddState, RunAdd>({view.in(0).shape.numel(), shape[0], shape[1]});
}

}  // namespace

constinit const KernelList kDgcCompressCpu = {{"vector", PrepareCompress}};
constinit const KernelList kDgcUpdateCpu = {{"plain", PrepareUpdate}};

}  // namespace tandem::ops
