#include "kernels/ops/batch_norm_dnnl.h"

#include <array>
#include <cmath>

#include "kernels/ops/batch_norm.h"
#include "kernels/ops/cpu_args.h"
#include "kernels/ops/dnnl_program.h"
#include "kernels/ops/half.h"
#include "kernels/ops/half_loops.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

using dnnl::normalization_flags;
using Desc = dnnl::memory::desc;

constexpr size_t kAlignment = 64;
constexpr int64_t kPiece = 1024;  // elements; as f32 they stay in the first-level cache

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct State {
  DnnlProgram program;
  int64_t channels, n;
  size_t bytes;   // of X
  size_t own_at;  // in scratch, behind the program's: what the operator itself keeps there
  float momentum, epsilon;
  bool is_test, relu, bf16;
  int parts;
};

// Loops over f32 or bf16, piece by piece: out = fn(a, b) elementwise, fn on f32. nullptr for b:
// none.
template <typename Fn>
void Combine(const State& s, const void* a, const void* b, void* out, const Fn& fn) {
  const HalfLoops& half = BestHalfLoops();
  ParallelFor(s.parts, s.n, [&](int, int64_t begin, int64_t end) {
    float wide_a[kPiece], wide_b[kPiece];
    for (int64_t at = begin; at < end; at += kPiece) {
      const int64_t n = std::min(kPiece, end - at);
      if (!s.bf16) {
        const auto* fb = static_cast<const float*>(b);
        fn(static_cast<const float*>(a) + at, fb == nullptr ? nullptr : fb + at,
           static_cast<float*>(out) + at, n);
        continue;
      }
      half.widen_bf16(static_cast<const uint16_t*>(a) + at, wide_a, n);
      if (b != nullptr) half.widen_bf16(static_cast<const uint16_t*>(b) + at, wide_b, n);
      fn(wide_a, b == nullptr ? nullptr : wide_b, wide_a, n);
      half.round_bf16(wide_a, static_cast<uint16_t*>(out) + at, n);
    }
  });
}

// What the primitive is, and how its tensors lie.
struct Problem {
  Desc data, per_channel;
  float epsilon;
  normalization_flags flags;

  Problem(const OpView& view, const BatchNormShape& s)
      : per_channel(PlainDesc({s.channels})),
        epsilon(static_cast<float>(view.attr<double>("epsilon"))),
        flags(normalization_flags::use_scale | normalization_flags::use_shift) {
    const auto dims = view.in(0).shape.dims();
    data = ImageDesc({dims.begin(), dims.end()}, ImageLayout::kLast, DnnlTypeOf(view.in(0).dtype));
    if (view.attr<bool>("is_test")) flags |= normalization_flags::use_global_stats;
  }
  dnnl::batch_normalization_forward::primitive_desc Forward(const dnnl::engine& engine) const {
    const dnnl::batch_normalization_forward::desc desc(dnnl::prop_kind::forward_training, data,
                                                       epsilon, flags);
    return {desc, UserScratchpad(), engine};
  }
};

// ---- Forward ------------------------------------------------------------------------------------

// Mean and variance are inputs 3 and 4 with is_test, else outputs 3 and 4; the latter becomes the
// inverse of the deviation behind it.
void BuildForward(DnnlProgram& program, const Problem& p, bool is_test) {
  const auto pd = p.Forward(program.engine());
  program.Add(
      dnnl::batch_normalization_forward(pd),
      {{DNNL_ARG_SRC, program.In(0, p.data)},
       {DNNL_ARG_SCALE, program.In(1, p.per_channel)},
       {DNNL_ARG_SHIFT, program.In(2, p.per_channel)},
       {DNNL_ARG_MEAN, is_test ? program.In(3, p.per_channel) : program.Out(3, p.per_channel)},
       {DNNL_ARG_VARIANCE, is_test ? program.In(4, p.per_channel) : program.Out(4, p.per_channel)},
       {DNNL_ARG_DST, program.Out(0, p.data)}},
      pd.scratchpad_desc());
}

void WriteStatistics(const State& s, const KernelArgs& args) {
  const float *mean_in = InF32(args, 3), *variance_in = InF32(args, 4);
  for (int64_t c = 0; c < s.channels; ++c) {
    const float mean = s.is_test ? mean_in[c] : OutF32(args, 3)[c];
    const float variance = s.is_test ? variance_in[c] : OutF32(args, 4)[c];
    const auto advance = [&](float running, float now) {
      return s.is_test ? now : running * s.momentum + now * (1.0f - s.momentum);
    };
    OutF32(args, 1)[c] = advance(mean_in[c], mean);
    OutF32(args, 2)[c] = advance(variance_in[c], variance);
    OutF32(args, 3)[c] = mean;
    OutF32(args, 4)[c] = 1.0f / std::sqrt(variance + s.epsilon);
  }
}

Status RunForward(State& s, const KernelArgs& args) {
  const void* z = s.relu ? args.in[5] : nullptr;
  // Y may lie where Z does, which is read later.
  std::array<void*, 5> out;
  std::copy_n(args.out, out.size(), out.begin());
  if (z != nullptr) out[0] = static_cast<std::byte*>(args.scratch) + s.own_at;
  KernelArgs inner = args;
  inner.out = out.data();
  TD_RETURN_IF_ERROR(s.program.Run(inner));
  WriteStatistics(s, args);
  if (!s.relu) return OkStatus();
  const Loops& loops = BestLoops();
  Combine(s, out[0], z, args.out[0],
          [&loops](const float* x, const float* more, float* y, int64_t n) {
            if (more != nullptr) loops.add(x, more, y, n);
            loops.relu(more != nullptr ? y : x, y, n);
          });
  return OkStatus();
}

// ---- Gradient -----------------------------------------------------------------------------------

// X, Scale, SavedMean, variance, Y@GRAD -> X@GRAD, Scale@GRAD, Bias@GRAD.
void BuildGrad(DnnlProgram& program, const Problem& p) {
  const dnnl::batch_normalization_backward::desc desc(dnnl::prop_kind::backward, p.data, p.data,
                                                      p.epsilon, p.flags);
  const dnnl::batch_normalization_backward::primitive_desc pd(
      desc, UserScratchpad(), program.engine(), p.Forward(program.engine()));
  const int scale = program.In(1, p.per_channel);
  // oneDNN 2.6 demands the shift and reads nothing of it.
  program.Add(dnnl::batch_normalization_backward(pd),
              {{DNNL_ARG_SRC, program.In(0, p.data)},
               {DNNL_ARG_SCALE, scale},
               {DNNL_ARG_SHIFT, scale},
               {DNNL_ARG_MEAN, program.In(2, p.per_channel)},
               {DNNL_ARG_VARIANCE, program.In(3, p.per_channel)},
               {DNNL_ARG_DIFF_DST, program.In(4, p.data)},
               {DNNL_ARG_DIFF_SRC, program.Out(0, p.data)},
               {DNNL_ARG_DIFF_SCALE, program.Out(1, p.per_channel)},
               {DNNL_ARG_DIFF_SHIFT, program.Out(2, p.per_channel)}},
              pd.scratchpad_desc());
}

// The operator's own scratch: the variance, then results that nobody wants, then the gradient
// behind relu.
struct OwnScratch {
  float *variance, *scale, *bias;
  std::byte *x, *g;
  static size_t Bytes(int64_t channels, size_t x_bytes) {
    return 3 * RoundUp(static_cast<size_t>(channels) * sizeof(float)) + 2 * RoundUp(x_bytes);
  }
  OwnScratch(const State& s, const KernelArgs& args) {
    std::byte* at = static_cast<std::byte*>(args.scratch) + s.own_at;
    const size_t row = RoundUp(static_cast<size_t>(s.channels) * sizeof(float));
    for (float** p : {&variance, &scale, &bias}) {
      *p = reinterpret_cast<float*>(at);
      at += row;
    }
    x = at;
    g = at + RoundUp(s.bytes);
  }
};

Status RunGrad(State& s, const KernelArgs& args) {
  const OwnScratch own(s, args);
  std::array<const void*, 5> in;
  std::copy_n(args.in, in.size(), in.begin());
  const float* inv_std = InF32(args, 3);
  for (int64_t c = 0; c < s.channels; ++c) {
    const double d = inv_std[c];
    own.variance[c] = static_cast<float>(1.0 / (d * d) - double{s.epsilon});
  }
  in[3] = own.variance;
  if (s.relu) {
    void* masked = args.out[3] != nullptr ? args.out[3] : own.g;
    Combine(s, args.in[5], args.in[4], masked,
            [&loops = BestLoops()](const float* y, const float* g, float* out, int64_t n) {
              loops.relu_grad(y, g, out, n);
            });
    in[4] = masked;
  }
  std::array<void*, 3> out = {args.out[0], args.out[1], args.out[2]};
  if (out[0] == nullptr) out[0] = own.x;
  if (out[1] == nullptr) out[1] = own.scale;
  if (out[2] == nullptr) out[2] = own.bias;
  KernelArgs inner = args;
  inner.in = in.data();
  inner.out = out.data();
  return s.program.Run(inner);
}

template <Status (*Run)(State&, const KernelArgs&), typename Build>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx, bool grad,
                         const Build& build) {
  TD_RETURN_IF_ERROR(CheckDnnlTypes(view));
  TD_ASSIGN_OR_RETURN(const BatchNormShape shape, BatchNormShapeOf(view));
  if (shape.layout != ImageLayout::kLast) return Unimplemented("only for NHWC");
  if (grad && view.has_in(view.op().inputs.size() - 1)) {
    return Unimplemented("statistics of several ranks are not known to oneDNN");
  }
  TD_ASSIGN_OR_RETURN(DnnlProgram program,
                      BuildDnnl(ctx, [&](DnnlProgram& p) { build(p, Problem(view, shape)); }));
  const size_t bytes = view.in(0).bytes(), at = RoundUp(program.scratch_bytes());
  const size_t own = grad ? OwnScratch::Bytes(shape.channels, bytes) : RoundUp(bytes);
  const int64_t n = view.in(0).shape.numel();
  return MakeKernel<State, Run>({.program = std::move(program),
                                 .channels = shape.channels,
                                 .n = n,
                                 .bytes = bytes,
                                 .own_at = at,
                                 .momentum = static_cast<float>(view.attr<double>("momentum")),
                                 .epsilon = static_cast<float>(view.attr<double>("epsilon")),
                                 .is_test = view.attr<bool>("is_test"),
                                 .relu = view.op().type.starts_with("fused"),
                                 .bf16 = IsHalf(view.in(0).dtype),
                                 .parts = PartsFor(ctx.threads, n)},
                                at + own);
}

}  // namespace

StatusOr<Kernel> PrepareDnnlBatchNorm(const OpView& view, const PrepareContext& ctx) {
  const bool is_test = view.attr<bool>("is_test");
  return Prepare<RunForward>(view, ctx, false, [is_test](DnnlProgram& program, const Problem& p) {
    BuildForward(program, p, is_test);
  });
}

StatusOr<Kernel> PrepareDnnlBatchNormGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare<RunGrad>(view, ctx, true, BuildGrad);
}

}  // namespace tandem
