#include <algorithm>

#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/formulas/sequence_pool.h"
#include "kernels/ops/rows/sequence_pool.h"

namespace tandem::ops {
namespace {

struct State {
  const Loops& loops;
  SequencePool pool;
  int parts;
};

int64_t LengthOf(const SequencePool& s, const KernelArgs& args, int64_t sequence) {
  return args.in[1] == nullptr ? s.steps : static_cast<const int64_t*>(args.in[1])[sequence];
}

Status CheckLengths(const SequencePool& s, const KernelArgs& args) {
  for (int64_t b = 0; b < s.batch; ++b) {
    const int64_t length = LengthOf(s, args, b);
    if (length >= 0 && length <= s.steps) continue;
    return InvalidArgument("Lengths[%d] is %d, expected 0 to %d", b, length, s.steps);
  }
  return OkStatus();
}

void PoolOne(const State& s, const float* x, int64_t length, float* out) {
  const int64_t dim = s.pool.dim;
  if (length == 0) {
    std::fill_n(out, dim, 0.0f);
  } else if (s.pool.type == PoolType::kFirst || s.pool.type == PoolType::kLast) {
    std::copy_n(s.pool.type == PoolType::kFirst ? x : x + (length - 1) * dim, dim, out);
  } else if (s.pool.type == PoolType::kMax) {
    std::copy_n(x, dim, out);
    for (int64_t t = 1; t < length; ++t) {
      for (int64_t d = 0; d < dim; ++d) out[d] = x[t * dim + d] > out[d] ? x[t * dim + d] : out[d];
    }
  } else {
    s.loops.sum_rows(x, out, length, dim);
    const float scale = SequencePoolScale(s.pool.type, length);
    if (scale != 1.0f) s.loops.scale(out, scale, 0.0f, out, dim);
  }
}

void MaxGrad(int64_t dim, int64_t length, const float* x, const float* y, const float* g,
             float* out) {
  std::fill_n(out, length * dim, 0.0f);
  for (int64_t d = 0; d < dim; ++d) {
    int64_t t = 0;
    while (t + 1 < length && x[t * dim + d] != y[d]) ++t;
    out[t * dim + d] = g[d];
  }
}

Status Run(State& s, const KernelArgs& args) {
  TD_RETURN_IF_ERROR(CheckLengths(s.pool, args));
  const int64_t size = s.pool.steps * s.pool.dim;
  ParallelFor(s.parts, s.pool.batch, [&](int, int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      PoolOne(s, InF32(args, 0) + b * size, LengthOf(s.pool, args, b),
              OutF32(args, 0) + b * s.pool.dim);
    }
  });
  return OkStatus();
}

Status RunGrad(State& s, const KernelArgs& args) {
  TD_RETURN_IF_ERROR(CheckLengths(s.pool, args));
  const int64_t dim = s.pool.dim, size = s.pool.steps * dim;
  const PoolType type = s.pool.type;
  ParallelFor(s.parts, s.pool.batch, [&](int, int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t length = LengthOf(s.pool, args, b);
      const float* g = InF32(args, 3) + b * dim;
      float* out = OutF32(args, 0) + b * size;
      std::fill(out + length * dim, out + size, 0.0f);
      if (length == 0) continue;
      if (type == PoolType::kMax) {
        MaxGrad(dim, length, InF32(args, 0) + b * size, InF32(args, 2) + b * dim, g, out);
      } else if (type == PoolType::kFirst || type == PoolType::kLast) {
        std::fill_n(out, length * dim, 0.0f);
        std::copy_n(g, dim, out + (type == PoolType::kFirst ? 0 : length - 1) * dim);
      } else {
        const float scale = SequencePoolScale(type, length);
        for (int64_t t = 0; t < length; ++t) s.loops.scale(g, scale, 0.0f, out + t * dim, dim);
      }
    }
  });
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const SequencePool pool, SequencePoolOf(view));
  return MakeKernel<State, Body>(
      {BestLoops(), pool, PartsFor(ctx.threads, view.in(0).shape.numel())});
}

}  // namespace

constinit const KernelList kSequencePoolCpu = {{"vector", Prepare<Run>}};
constinit const KernelList kSequencePoolGradCpu = {{"vector", Prepare<RunGrad>}};

}  // namespace tandem::ops
