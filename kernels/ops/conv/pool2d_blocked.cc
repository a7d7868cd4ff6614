#include "kernels/ops/conv/pool2d_blocked.h"

#include <algorithm>

#include "common/base/require.h"
#include "kernels/ops/conv/pool2d.h"
#include "kernels/ops/core/image_layout.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

constexpr int64_t kLanes = kLayoutBlock;

struct State {
  PoolShape s;
  int parts;
};

// Pools one block: the planes of 16 interleaved channels.
void Plane(const PoolShape& s, const float* x, float* out) {
  for (int64_t i = 0; i < s.out[0]; ++i) {
    for (int64_t j = 0; j < s.out[1]; ++j, out += kLanes) {
      const PoolWindow w = WindowAt(s, i, j);
      float acc[kLanes];
      const float* first = x + (w.top * s.in[1] + w.left) * kLanes;
      for (int64_t l = 0; l < kLanes; ++l) acc[l] = s.max ? first[l] : 0.0f;
      for (int64_t y = w.top; y < w.bottom; ++y) {
        for (int64_t z = w.left; z < w.right; ++z) {
          const float* at = x + (y * s.in[1] + z) * kLanes;
          for (int64_t l = 0; l < kLanes; ++l) {
            acc[l] = s.max ? (at[l] > acc[l] ? at[l] : acc[l]) : acc[l] + at[l];
          }
        }
      }
      const float divisor = s.max ? 1.0f : PoolDivisor(s, w);
      for (int64_t l = 0; l < kLanes; ++l) out[l] = acc[l] / divisor;
    }
  }
}

// Adds the gradient of one output element to the input gradients of its window `w`. For max, the
// first element that equals the maximum gets the whole gradient. For an average, all elements get
// equal shares.
void Spread(const PoolShape& s, const PoolWindow& w, const float* x, const float* y, const float* g,
            float* gx) {
  float left[kLanes];  // part of the gradient that is not distributed yet
  const float divisor = s.max ? 1.0f : PoolDivisor(s, w);
  for (int64_t l = 0; l < kLanes; ++l) left[l] = g[l] / divisor;
  for (int64_t row = w.top; row < w.bottom; ++row) {
    for (int64_t col = w.left; col < w.right; ++col) {
      const int64_t at = (row * s.in[1] + col) * kLanes;
      if (!s.max) {
        for (int64_t l = 0; l < kLanes; ++l) gx[at + l] += left[l];
        continue;
      }
      for (int64_t l = 0; l < kLanes; ++l) {
        const bool here = x[at + l] == y[l];
        gx[at + l] += here ? left[l] : 0.0f;
        left[l] = here ? 0.0f : left[l];
      }
    }
  }
}

void PlaneGrad(const PoolShape& s, const float* x, const float* y, const float* g, float* gx) {
  std::fill_n(gx, s.in_plane() * kLanes, 0.0f);
  for (int64_t i = 0; i < s.out[0]; ++i) {
    for (int64_t j = 0; j < s.out[1]; ++j, y += kLanes, g += kLanes) {
      Spread(s, WindowAt(s, i, j), x, y, g, gx);
    }
  }
}

Status Run(State& st, const KernelArgs& args) {
  const int64_t in = st.s.in_plane() * kLanes, out = st.s.out_plane() * kLanes;
  ParallelFor(st.parts, st.s.planes / kLanes, [&](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      Plane(st.s, InF32(args, 0) + p * in, OutF32(args, 0) + p * out);
    }
  });
  return OkStatus();
}

Status RunGrad(State& st, const KernelArgs& args) {
  const int64_t in = st.s.in_plane() * kLanes, out = st.s.out_plane() * kLanes;
  ParallelFor(st.parts, st.s.planes / kLanes, [&](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      PlaneGrad(st.s, InF32(args, 0) + p * in, InF32(args, 1) + p * out, InF32(args, 2) + p * out,
                OutF32(args, 0) + p * in);
    }
  });
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  TD_REQUIRE(s.planes * s.in_plane() == view.in(0).shape.numel());
  if (s.layout != ImageLayout::kBlocked)
    return Unimplemented("this kernel does not support layout %s, expected nChw16c",
                         view.attr<std::string>("data_layout"));
  return MakeKernel<State, Body>({s, PartsFor(ctx.threads, s.planes * s.in_plane())});
}

}  // namespace

StatusOr<Kernel> PrepareBlockedPool(const OpView& view, const PrepareContext& ctx) {
  return Prepare<Run>(view, ctx);
}
StatusOr<Kernel> PrepareBlockedPoolGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare<RunGrad>(view, ctx);
}

}  // namespace tandem::ops
