#include <algorithm>

#include "common/base/require.h"
#include "kernels/ops/conv/pool2d.h"
#include "kernels/ops/conv/pool2d_blocked.h"
#include "kernels/ops/conv/pool2d_dnnl.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

// ---- Windows of any size ------------------------------------------------------------------------

struct State {
  PoolShape s;
  const Loops& loops;
  int parts;
};

// Returns the index of the largest element in window `w`; if several elements are equally large,
// the index of the first.
int64_t ArgMax(const PoolShape& s, const PoolWindow& w, const float* x) {
  int64_t best = w.top * s.in[1] + w.left;
  for (int64_t i = w.top; i < w.bottom; ++i) {
    for (int64_t j = w.left; j < w.right; ++j) {
      if (x[i * s.in[1] + j] > x[best]) best = i * s.in[1] + j;
    }
  }
  return best;
}

float Average(const PoolShape& s, const PoolWindow& w, const float* x) {
  float sum = 0.0f;
  for (int64_t i = w.top; i < w.bottom; ++i) {
    for (int64_t j = w.left; j < w.right; ++j) sum += x[i * s.in[1] + j];
  }
  return sum / PoolDivisor(s, w);
}

void SpreadAverage(const PoolShape& s, const PoolWindow& w, float g, float* gx) {
  const float share = g / PoolDivisor(s, w);
  for (int64_t i = w.top; i < w.bottom; ++i) {
    for (int64_t j = w.left; j < w.right; ++j) gx[i * s.in[1] + j] += share;
  }
}

void Plane(const PoolShape& s, const float* x, float* out) {
  for (int64_t i = 0; i < s.out[0]; ++i) {
    for (int64_t j = 0; j < s.out[1]; ++j) {
      const PoolWindow w = WindowAt(s, i, j);
      *out++ = s.max ? x[ArgMax(s, w, x)] : Average(s, w, x);
    }
  }
}

void PlaneGrad(const PoolShape& s, const float* x, const float* g, float* gx) {
  std::fill_n(gx, s.in_plane(), 0.0f);
  for (int64_t i = 0; i < s.out[0]; ++i) {
    for (int64_t j = 0; j < s.out[1]; ++j, ++g) {
      const PoolWindow w = WindowAt(s, i, j);
      if (s.max) {
        gx[ArgMax(s, w, x)] += *g;
      } else {
        SpreadAverage(s, w, *g, gx);
      }
    }
  }
}

Status RunPlain(State& st, const KernelArgs& args) {
  const PoolShape& s = st.s;
  ParallelFor(st.parts, s.planes, [&](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      Plane(s, InF32(args, 0) + p * s.in_plane(), OutF32(args, 0) + p * s.out_plane());
    }
  });
  return OkStatus();
}

Status RunPlainGrad(State& st, const KernelArgs& args) {
  const PoolShape& s = st.s;
  ParallelFor(st.parts, s.planes, [&](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      PlaneGrad(s, InF32(args, 0) + p * s.in_plane(), InF32(args, 2) + p * s.out_plane(),
                OutF32(args, 0) + p * s.in_plane());
    }
  });
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> PreparePlain(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  TD_REQUIRE(s.planes * s.in_plane() == view.in(0).shape.numel());
  if (s.layout != ImageLayout::kPlain)
    return Unimplemented("this kernel does not support layout %s, expected NCHW",
                         view.attr<std::string>("data_layout"));
  const int64_t cost = s.planes * s.out_plane() * s.kernel[0] * s.kernel[1];
  return MakeKernel<State, Body>({s, BestLoops(), PartsFor(ctx.threads, cost)});
}

// ---- Maximum of 2x2 windows ---------------------------------------------------------------------

Status RunMax2(State& st, const KernelArgs& args) {
  const PoolShape& s = st.s;
  ParallelFor(st.parts, s.planes, [&](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      st.loops.max_pool2(InF32(args, 0) + p * s.in_plane(), OutF32(args, 0) + p * s.out_plane(),
                         s.in[1], s.out[0], s.out[1]);
    }
  });
  return OkStatus();
}

Status RunMax2Grad(State& st, const KernelArgs& args) {
  const PoolShape& s = st.s;
  ParallelFor(st.parts, s.planes, [&](int, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t out = p * s.out_plane();
      st.loops.max_pool2_grad(InF32(args, 0) + p * s.in_plane(), InF32(args, 1) + out,
                              InF32(args, 2) + out, OutF32(args, 0) + p * s.in_plane(), s.in[0],
                              s.in[1], s.out[0], s.out[1]);
    }
  });
  return OkStatus();
}

template <Status (*Body)(State&, const KernelArgs&)>
StatusOr<Kernel> PrepareMax2(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const PoolShape s, PoolShapeOf(view));
  if (s.layout != ImageLayout::kPlain)
    return Unimplemented("this kernel does not support layout %s, expected NCHW",
                         view.attr<std::string>("data_layout"));
  for (int d = 0; d < 2; ++d) {
    if (!s.max || s.kernel[d] != 2 || s.stride[d] != 2 || s.pad[d] != 0) {
      return Unimplemented(
          "this kernel supports only max pooling with 2x2 windows, stride 2 and no padding");
    }
  }
  return MakeKernel<State, Body>({s, BestLoops(), PartsFor(ctx.threads, s.planes * s.in_plane())});
}

}  // namespace

constinit const KernelList kPool2dCpu = {{"blocked", OrWidened<PrepareBlockedPool>},
                                         {"direct", OrWidened<PrepareMax2<RunMax2>>},
                                         {"onednn", NativeOrWidened<PrepareDnnlPool>},
                                         {"plain", OrWidened<PreparePlain<RunPlain>>}};

constinit const KernelList kPool2dGradCpu = {{"blocked", OrWidened<PrepareBlockedPoolGrad>},
                                             {"direct", OrWidened<PrepareMax2<RunMax2Grad>>},
                                             {"onednn", NativeOrWidened<PrepareDnnlPoolGrad>},
                                             {"plain", OrWidened<PreparePlain<RunPlainGrad>>}};

}  // namespace tandem::ops
