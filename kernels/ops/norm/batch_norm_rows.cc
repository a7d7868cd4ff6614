#include "kernels/ops/norm/batch_norm_rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half_loops.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/norm/batch_norm.h"
#include "kernels/ops/norm/norm_loops.h"

namespace tandem::ops {
namespace {

constexpr int64_t kPiece = 4096;  // number of elements that are converted to f32 at a time (16 KB)
// Number of rows per block. The moments of a block are computed first, then the blocks are joined.
constexpr int64_t kBlockRows = 128;
constexpr int64_t kBuffers = 3;  // number of buffers per thread

struct State {
  BatchNormShape s;
  float momentum, epsilon;
  bool is_test, relu, bf16;
  const NormLoops& loops;
  const HalfLoops& half;
  int parts;

  int64_t rows() const { return s.batch * s.plane; }
  int64_t blocks() const { return (rows() + kBlockRows - 1) / kBlockRows; }
  int64_t piece_rows() const { return std::max<int64_t>(1, kPiece / s.channels); }
  int64_t piece() const { return piece_rows() * s.channels; }
  // Offsets in scratch memory, in floats. Scratch memory contains two values per block and channel,
  // then four values per channel, then the buffers of the threads.
  int64_t per_channel_at() const { return 2 * blocks() * s.channels; }
  int64_t buffers_at() const { return per_channel_at() + 4 * s.channels; }
  size_t scratch_bytes() const {
    return static_cast<size_t>(buffers_at() + parts * kBuffers * piece()) * sizeof(float);
  }
};

// The scratch memory of a run. State defines its parts.
struct Scratch {
  Scratch(const State& st, const KernelArgs& args)
      : st_(st), at_(static_cast<float*>(args.scratch)) {}
  // Returns the address of value 0 or 1 of block `b`, an array by channel.
  float* block(int64_t b, int value) const { return at_ + (2 * b + value) * st_.s.channels; }
  float* per_channel(int i) const { return at_ + st_.per_channel_at() + i * st_.s.channels; }
  float* buffer(int part, int i) const {
    return at_ + st_.buffers_at() + (part * kBuffers + i) * st_.piece();
  }

 private:
  const State& st_;
  float* const at_;
};

// Returns elements [at, at + n) of `tensor` as f32: their address in the tensor if the tensor is
// f32, otherwise `buffer` with the converted elements. Returns nullptr if `tensor` is nullptr.
const float* Load(const State& st, const void* tensor, int64_t at, int64_t n, float* buffer) {
  if (tensor == nullptr) return nullptr;
  if (!st.bf16) return static_cast<const float*>(tensor) + at;
  st.half.widen_bf16(static_cast<const uint16_t*>(tensor) + at, buffer, n);
  return buffer;
}

// Returns the address to which the caller must write f32 results, starting with element `at`. Store
// then converts these results to bf16 if the tensor is bf16.
float* Target(const State& st, void* tensor, int64_t at, float* buffer) {
  if (tensor == nullptr) return nullptr;
  return st.bf16 ? buffer : static_cast<float*>(tensor) + at;
}
void Store(const State& st, const float* from, void* tensor, int64_t at, int64_t n) {
  if (tensor == nullptr || !st.bf16) return;
  st.half.round_bf16(from, static_cast<uint16_t*>(tensor) + at, n);
}

// Calls body(begin, rows) for one piece of the rows [begin, end) after another.
template <typename Body>
void ForPieces(const State& st, int64_t begin, int64_t end, const Body& body) {
  for (; begin < end; begin += st.piece_rows()) body(begin, std::min(st.piece_rows(), end - begin));
}

// Calls body(part, block, begin, end) for every block of rows, in parallel.
template <typename Body>
void ForBlocks(const State& st, const Body& body) {
  ParallelFor(st.parts, st.blocks(), [&](int part, int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      body(part, b, b * kBlockRows, std::min(st.rows(), (b + 1) * kBlockRows));
    }
  });
}

// ---- Forward ------------------------------------------------------------------------------------

// Computes the mean and the sum of squared deviations of each block in two passes. The second pass
// also corrects the rounding error of the mean from the first pass. Source: the corrected two-pass
// algorithm of Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983.
void BlockMoments(const State& st, const KernelArgs& args, const Scratch& scratch) {
  const int64_t c = st.s.channels;
  ForBlocks(st, [&](int part, int64_t block, int64_t begin, int64_t end) {
    float *mean = scratch.block(block, 0), *squares = scratch.block(block, 1);
    float *const buffer = scratch.buffer(part, 0), *const off = scratch.buffer(part, 1);
    const auto count = static_cast<float>(end - begin);
    std::fill_n(mean, 2 * c, 0.0f);
    std::fill_n(off, c, 0.0f);
    ForPieces(st, begin, end, [&](int64_t row, int64_t n) {
      st.loops.row_sums(Load(st, args.in[0], row * c, n * c, buffer), n, c, mean);
    });
    for (int64_t i = 0; i < c; ++i) mean[i] /= count;
    ForPieces(st, begin, end, [&](int64_t row, int64_t n) {
      st.loops.row_deviations(Load(st, args.in[0], row * c, n * c, buffer), mean, n, c, off,
                              squares);
    });
    for (int64_t i = 0; i < c; ++i) {
      mean[i] += off[i] / count;
      squares[i] -= off[i] * (off[i] / count);
    }
  });
}

struct Moments {
  float mean, variance;
};

// Joins the moments of all blocks, as in Chan, Golub and LeVeque (batch_norm_cpu.cc).
Moments Join(const State& st, const Scratch& scratch, int64_t channel) {
  double count = 0, mean = 0, m2 = 0;
  for (int64_t b = 0; b < st.blocks(); ++b) {
    const auto n = static_cast<double>(std::min(kBlockRows, st.rows() - b * kBlockRows));
    const double delta = double{scratch.block(b, 0)[channel]} - mean, total = count + n;
    mean += delta * n / total;
    m2 += double{scratch.block(b, 1)[channel]} + delta * delta * count * n / total;
    count = total;
  }
  return {static_cast<float>(mean), static_cast<float>(m2 / count)};
}

// Writes the statistics of all channels, and to `scale` the factors by which x is multiplied.
void Statistics(const State& st, const KernelArgs& args, const Scratch& scratch, float* scale) {
  const float *mean_in = InF32(args, 3), *variance_in = InF32(args, 4);
  ParallelFor(st.parts, st.s.channels, [&](int, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const Moments now = st.is_test ? Moments{mean_in[c], variance_in[c]} : Join(st, scratch, c);
      OutF32(args, 1)[c] =
          st.is_test ? now.mean : AdvanceStatistic(st.momentum, mean_in[c], now.mean);
      OutF32(args, 2)[c] =
          st.is_test ? now.variance : AdvanceStatistic(st.momentum, variance_in[c], now.variance);
      const float inv_std = 1.0f / std::sqrt(now.variance + st.epsilon);
      OutF32(args, 3)[c] = now.mean;
      OutF32(args, 4)[c] = inv_std;
      scale[c] = InF32(args, 1)[c] * inv_std;
    }
  });
}

Status RunForward(State& st, const KernelArgs& args) {
  const Scratch scratch(st, args);
  if (!st.is_test) BlockMoments(st, args, scratch);
  float* const scale = scratch.per_channel(0);
  Statistics(st, args, scratch, scale);
  const void* z = st.relu ? args.in[5] : nullptr;
  const int64_t c = st.s.channels;
  ParallelFor(st.parts, st.rows(), [&](int part, int64_t begin, int64_t end) {
    ForPieces(st, begin, end, [&](int64_t row, int64_t rows) {
      const int64_t at = row * c, n = rows * c;
      float* const y = Target(st, args.out[0], at, scratch.buffer(part, 0));
      st.loops.row_apply({.x = Load(st, args.in[0], at, n, scratch.buffer(part, 0)),
                          .z = Load(st, z, at, n, scratch.buffer(part, 1)),
                          .mean = OutF32(args, 3),
                          .scale = scale,
                          .bias = InF32(args, 2),
                          .relu = st.relu,
                          .y = y},
                         rows, c);
      Store(st, y, args.out[0], at, n);
    });
  });
  return OkStatus();
}

// ---- Gradient -----------------------------------------------------------------------------------

// Loads a piece of the gradient's inputs. The inputs are X, Scale, SavedMean, SavedInvStd and
// Y@GRAD. With relu, Y follows. With several ranks, the sums over all ranks follow.
NormLoops::Grad LoadGrad(const State& st, const KernelArgs& args, const Scratch& scratch, int part,
                         int64_t at, int64_t n) {
  return {.x = Load(st, args.in[0], at, n, scratch.buffer(part, 0)),
          .y = st.relu ? Load(st, args.in[5], at, n, scratch.buffer(part, 1)) : nullptr,
          .g = Load(st, args.in[4], at, n, scratch.buffer(part, 2)),
          .mean = InF32(args, 2)};
}

void BlockGradSums(const State& st, const KernelArgs& args, const Scratch& scratch) {
  const int64_t c = st.s.channels;
  ForBlocks(st, [&](int part, int64_t block, int64_t begin, int64_t end) {
    float *g = scratch.block(block, 0), *gx = scratch.block(block, 1);
    std::fill_n(g, 2 * c, 0.0f);
    ForPieces(st, begin, end, [&](int64_t row, int64_t n) {
      st.loops.row_grad_sums(LoadGrad(st, args, scratch, part, row * c, n * c), n, c, g, gx);
    });
  });
}

// Computes the gradients of scale and bias. Also computes the factors scale, mean_g and slope, by
// channel, for the gradient of x.
void GradFactors(const State& st, const KernelArgs& args, const Scratch& scratch) {
  const float *weight = InF32(args, 1), *inv_std = InF32(args, 3);
  const float* of_all = InF32(args, st.relu ? 6 : 5);
  float *scale = scratch.per_channel(0), *mean_g = scratch.per_channel(1),
        *slope = scratch.per_channel(2);
  const int64_t channels = st.s.channels;
  ParallelFor(st.parts, channels, [&](int, int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double g = 0, gx = 0, count = static_cast<double>(st.rows());
      for (int64_t b = 0; b < st.blocks(); ++b) {
        g += double{scratch.block(b, 0)[c]};
        gx += double{scratch.block(b, 1)[c]};
      }
      if (float* out = OutF32(args, 1)) out[c] = static_cast<float>(gx * inv_std[c]);
      if (float* out = OutF32(args, 2)) out[c] = static_cast<float>(g);
      if (of_all != nullptr) {
        count = static_cast<double>(of_all[0]) * static_cast<double>(st.s.plane);
        g = of_all[1 + c];
        gx = of_all[1 + channels + c];
      }
      scale[c] = weight[c] * inv_std[c];
      // In evaluation the statistics are constants, so these factors are 0.
      mean_g[c] = st.is_test ? 0.0f : static_cast<float>(g / count);
      slope[c] = st.is_test ? 0.0f : static_cast<float>(gx * inv_std[c] * inv_std[c] / count);
    }
  });
}

Status RunGrad(State& st, const KernelArgs& args) {
  const Scratch scratch(st, args);
  BlockGradSums(st, args, scratch);
  GradFactors(st, args, scratch);
  void *to_x = args.out[0], *to_z = st.relu ? args.out[3] : nullptr;
  if (to_x == nullptr && to_z == nullptr) return OkStatus();
  const int64_t c = st.s.channels;
  ParallelFor(st.parts, st.rows(), [&](int part, int64_t begin, int64_t end) {
    ForPieces(st, begin, end, [&](int64_t row, int64_t rows) {
      const int64_t at = row * c, n = rows * c;
      NormLoops::Grad grad = LoadGrad(st, args, scratch, part, at, n);
      grad.scale = scratch.per_channel(0);
      grad.mean_g = scratch.per_channel(1);
      grad.slope = scratch.per_channel(2);
      // Results of a 16-bit type overwrite the buffers of x and g. This is possible because
      // row_grad reads an element of these buffers before it writes the result of this element.
      grad.gx = Target(st, to_x, at, scratch.buffer(part, 0));
      grad.gz = Target(st, to_z, at, scratch.buffer(part, 2));
      st.loops.row_grad(grad, rows, c);
      Store(st, grad.gx, to_x, at, n);
      Store(st, grad.gz, to_z, at, n);
    });
  });
  return OkStatus();
}

template <Status (*Run)(State&, const KernelArgs&)>
StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const BatchNormShape shape, BatchNormShapeOf(view));
  if (shape.layout != ImageLayout::kLast)
    return Unimplemented("this kernel does not support layout %s, expected NHWC",
                         view.attr<std::string>("data_layout"));
  TD_REQUIRE(shape.batch * shape.channels * shape.plane == view.in(0).shape.numel());
  const DType dtype = view.in(0).dtype;
  if (dtype == DType::kF16) return Unimplemented("this kernel supports only f32 and bf16");
  State state{.s = shape,
              .momentum = static_cast<float>(view.attr<double>("momentum")),
              .epsilon = static_cast<float>(view.attr<double>("epsilon")),
              .is_test = view.attr<bool>("is_test"),
              .relu = view.op().type.starts_with("fused"),
              .bf16 = dtype == DType::kBF16,
              .loops = BestNormLoops(),
              .half = BestHalfLoops(),
              .parts = PartsFor(ctx.threads, view.in(0).shape.numel())};
  const size_t scratch = state.scratch_bytes();
  return MakeKernel<State, Run>(std::move(state), scratch);
}

}  // namespace

StatusOr<Kernel> PrepareRowsBatchNorm(const OpView& view, const PrepareContext& ctx) {
  return Prepare<RunForward>(view, ctx);
}

StatusOr<Kernel> PrepareRowsBatchNormGrad(const OpView& view, const PrepareContext& ctx) {
  return Prepare<RunGrad>(view, ctx);
}

}  // namespace tandem::ops
