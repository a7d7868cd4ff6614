#include "kernels/ops/conv_direct.h"

#include <algorithm>
#include <vector>

#include "kernels/ops/conv2d.h"
#include "kernels/ops/conv_loops.h"
#include "kernels/ops/cpu_args.h"
#include "kernels/ops/loops.h"
#include "kernels/ops/parallel.h"

namespace tandem {
namespace {

int64_t RoundUp(int64_t n) {
  return (n + ConvLoops::kLanesMax - 1) / ConvLoops::kLanesMax * ConvLoops::kLanesMax;
}

// One image's planes with zeros around them, rows of `width`, and the output as one long row.
struct Padded {
  int64_t channels, in[2], out[2], pad[2];
  int64_t height, width;
  int64_t length;  // of the long row, rounded up to whole vectors
  int64_t stride;  // elements from one image to the next, including what vectors read beyond it
  std::vector<int32_t> offset;  // of each (channel, row, column) of the filter

  Padded() = default;
  Padded(int64_t c, const int64_t (&in_size)[2], const int64_t (&padding)[2], const ConvShape& s)
      : channels(c) {
    for (int d = 0; d < 2; ++d) {
      in[d] = in_size[d];
      pad[d] = padding[d];
    }
    height = in[0] + 2 * pad[0];
    width = in[1] + 2 * pad[1];
    out[0] = height - s.dilation[0] * (s.kernel[0] - 1);
    out[1] = width - s.dilation[1] * (s.kernel[1] - 1);
    length = RoundUp((out[0] - 1) * width + out[1]);
    stride = RoundUp(channels * height * width + ConvLoops::kLanesMax);
    for (int64_t ch = 0; ch < channels; ++ch) {
      for (int64_t i = 0; i < s.kernel[0]; ++i) {
        for (int64_t j = 0; j < s.kernel[1]; ++j) {
          offset.push_back(
              static_cast<int32_t>((ch * height + i * s.dilation[0]) * width + j * s.dilation[1]));
        }
      }
    }
  }

  // Writes the inside of the planes; the zeros around must be there already.
  void Fill(const ConvLoops& loops, const float* image, float* padded) const {
    for (int64_t c = 0; c < channels; ++c) {
      loops.copy_rows(image + c * in[0] * in[1], in[1],
                      padded + (c * height + pad[0]) * width + pad[1], width, in[0], in[1]);
    }
  }

  // Cuts the waste out of `count` long output rows.
  void Extract(const ConvLoops& loops, const float* rows, int64_t count, float* image) const {
    for (int64_t c = 0; c < count; ++c) {
      loops.copy_rows(rows + c * length, width, image + c * out[0] * out[1], out[1], out[0],
                      out[1]);
    }
  }
};

// REQUIRES: stride 1. Few channels: with more the blocked layouts of oneDNN are faster.
Status CheckShape(const ConvShape& s) {
  constexpr int64_t kChannelsMax = 32;
  if (s.stride[0] != 1 || s.stride[1] != 1 || s.groups != 1) {
    return Unimplemented("only for stride 1 and one group");
  }
  if (s.in_c > kChannelsMax || s.out_c > kChannelsMax) {
    return Unimplemented("only for up to %d channels", kChannelsMax);
  }
  if (s.batch < 1 || s.in_c < 1 || s.out_c < 1 || s.in_plane() > 1 << 16 || s.pad[0] > 256 ||
      s.pad[1] > 256) {
    return Unimplemented("only for planes of up to 2^16 elements");
  }
  return OkStatus();
}

int PartsFor(const PrepareContext& ctx, const ConvShape& s) {
  constexpr int64_t kProductsPerElement = 16;
  const int64_t products = s.batch * s.out_c * s.out_plane() * s.taps();
  return static_cast<int>(
      std::min<int64_t>(s.batch, tandem::PartsFor(ctx.threads, products / kProductsPerElement)));
}

// ---- Forward ------------------------------------------------------------------------------------

struct ForwardState {
  ConvShape s;
  const ConvLoops& loops;
  Padded padded;
  int parts;
  int64_t weights() const { return RoundUp(s.out_c * s.taps()); }
  int64_t rows() const { return s.out_c * padded.length; }
  int64_t part() const { return padded.stride + rows(); }
};

// to[t, o] = from[o, t]
void PackWeights(const float* from, int64_t channels, int64_t taps, float* to) {
  for (int64_t o = 0; o < channels; ++o) {
    for (int64_t t = 0; t < taps; ++t) to[t * channels + o] = from[o * taps + t];
  }
}

Status RunForward(ForwardState& st, const KernelArgs& args) {
  const ConvShape& s = st.s;
  float* weights = static_cast<float*>(args.scratch);
  PackWeights(InF32(args, 1), s.out_c, s.taps(), weights);
  ParallelFor(st.parts, s.batch, [&](int part, int64_t begin, int64_t end) {
    float* in = weights + st.weights() + part * st.part();
    float* rows = in + st.padded.stride;
    std::fill_n(in, st.padded.stride, 0.0f);
    for (int64_t n = begin; n < end; ++n) {
      st.padded.Fill(st.loops, InF32(args, 0) + n * s.in_c * s.in_plane(), in);
      st.loops.forward({.in = in,
                        .w = weights,
                        .bias = InF32(args, 2),
                        .offset = st.padded.offset.data(),
                        .taps = s.taps(),
                        .channels = s.out_c,
                        .length = st.padded.length,
                        .out = rows,
                        .out_ld = st.padded.length});
      st.padded.Extract(st.loops, rows, s.out_c, OutF32(args, 0) + n * s.out_c * s.out_plane());
    }
  });
  return OkStatus();
}

// ---- Gradients ----------------------------------------------------------------------------------

// The gradient of the input is a convolution of the output's gradient, padded to full overlap, with
// the filter turned by half a turn and its channels exchanged.
struct GradState {
  static constexpr int64_t kChunk = 4;  // images whose planes stay in the L1 cache

  ConvShape s;
  const ConvLoops& loops;
  const Loops& vector_loops;
  Padded input;   // the input, for the filter's gradient
  Padded output;  // the output's gradient, for the input's gradient
  bool need_input, need_filter, need_bias;
  int parts;

  int64_t taps() const { return s.out_c * s.kernel[0] * s.kernel[1]; }  // of the turned filter
  int64_t weights() const { return need_input ? RoundUp(s.in_c * taps()) : 0; }
  int64_t row_stride() const { return s.out_c * input.length; }  // output's gradient as long rows
  int64_t acc() const { return s.out_c * s.taps() * ConvLoops::kLanesMax; }
  // Scratch of one part, in this order: sums for bias, sums for filter, inputs, gradients as long
  // rows; padded gradient, rows of the input's gradient.
  int64_t part() const {
    return RoundUp(s.out_c) + (need_filter ? acc() + kChunk * (input.stride + row_stride()) : 0) +
           (need_input ? output.stride + s.in_c * output.length : 0);
  }
};

// to[(o, i, j), c] = filter[o, c, last - i, last - j]
void TurnFilter(const ConvShape& s, const float* filter, float* to) {
  const int64_t k = s.kernel[0] * s.kernel[1];
  for (int64_t o = 0; o < s.out_c; ++o) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t c = 0; c < s.in_c; ++c) *to++ = filter[(o * s.in_c + c) * k + k - 1 - i];
    }
  }
}

void FilterGrad(const GradState& st, const float* in, const float* g, int64_t images, float* acc,
                float* padded) {
  const ConvShape& s = st.s;
  float* rows = padded + GradState::kChunk * st.input.stride;
  for (int64_t n = 0; n < images; ++n) {
    st.input.Fill(st.loops, in + n * s.in_c * s.in_plane(), padded + n * st.input.stride);
    for (int64_t o = 0; o < s.out_c; ++o) {
      float* row = rows + n * st.row_stride() + o * st.input.length;
      const float* plane = g + (n * s.out_c + o) * s.out_plane();
      st.loops.copy_rows(plane, s.out[1], row, st.input.width, s.out[0], s.out[1]);
    }
  }
  st.loops.weights({.in = padded,
                    .g = rows,
                    .offset = st.input.offset.data(),
                    .taps = s.taps(),
                    .channels = s.out_c,
                    .length = st.input.length,
                    .g_ld = st.input.length,
                    .images = images,
                    .in_stride = st.input.stride,
                    .g_stride = st.row_stride(),
                    .acc = acc});
}

void InputGrad(const GradState& st, const float* weights, const float* g, float* gin,
               float* padded) {
  st.output.Fill(st.loops, g, padded);
  float* rows = padded + st.output.stride;
  st.loops.forward({.in = padded,
                    .w = weights,
                    .bias = nullptr,
                    .offset = st.output.offset.data(),
                    .taps = st.taps(),
                    .channels = st.s.in_c,
                    .length = st.output.length,
                    .out = rows,
                    .out_ld = st.output.length});
  st.output.Extract(st.loops, rows, st.s.in_c, gin);
}

void GradPart(const GradState& st, const KernelArgs& args, const float* weights, float* scratch,
              int64_t begin, int64_t end) {
  const ConvShape& s = st.s;
  const int64_t in_image = s.in_c * s.in_plane(), out_image = s.out_c * s.out_plane();
  std::fill_n(scratch, st.part(), 0.0f);
  float* bias = scratch;
  float* acc = bias + RoundUp(s.out_c);
  float* chunk = acc + (st.need_filter ? st.acc() : 0);
  float* padded =
      chunk + (st.need_filter ? GradState::kChunk * (st.input.stride + st.row_stride()) : 0);
  for (int64_t n = begin; n < end; n += GradState::kChunk) {
    const int64_t images = std::min(GradState::kChunk, end - n);
    const float* g = InF32(args, 2) + n * out_image;
    if (st.need_filter) FilterGrad(st, InF32(args, 0) + n * in_image, g, images, acc, chunk);
    for (int64_t i = 0; i < images; ++i) {
      if (st.need_input) {
        InputGrad(st, weights, g + i * out_image, OutF32(args, 0) + (n + i) * in_image, padded);
      }
      for (int64_t o = 0; st.need_bias && o < s.out_c; ++o) {
        bias[o] += st.vector_loops.sum(g + i * out_image + o * s.out_plane(), s.out_plane());
      }
    }
  }
}

// Adds up what the parts found, in their order.
void Reduce(const GradState& st, const float* scratch, float* gfilter, float* gbias) {
  const int64_t filters = st.s.out_c * st.s.taps();
  for (int64_t i = 0; gfilter != nullptr && i < filters; ++i) {
    float total = 0.0f;
    for (int part = 0; part < st.parts; ++part) {
      const float* acc = scratch + part * st.part() + RoundUp(st.s.out_c);
      total += st.vector_loops.sum(acc + i * ConvLoops::kLanesMax, ConvLoops::kLanesMax);
    }
    gfilter[i] = total;
  }
  for (int64_t o = 0; gbias != nullptr && o < st.s.out_c; ++o) {
    gbias[o] = 0.0f;
    for (int part = 0; part < st.parts; ++part) gbias[o] += scratch[part * st.part() + o];
  }
}

Status RunGrad(GradState& st, const KernelArgs& args) {
  float* weights = static_cast<float*>(args.scratch);
  if (st.need_input) TurnFilter(st.s, InF32(args, 1), weights);
  float* parts = weights + st.weights();
  ParallelFor(st.parts, st.s.batch, [&](int part, int64_t begin, int64_t end) {
    GradPart(st, args, weights, parts + part * st.part(), begin, end);
  });
  Reduce(st, parts, OutF32(args, 1), OutF32(args, 2));
  return OkStatus();
}

}  // namespace

StatusOr<Kernel> PrepareDirectConv(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  TD_RETURN_IF_ERROR(CheckShape(s));
  ForwardState st{s, BestConvLoops(), Padded(s.in_c, s.in, s.pad, s), PartsFor(ctx, s)};
  const size_t scratch = (st.weights() + st.parts * st.part()) * sizeof(float);
  return MakeKernel<ForwardState, RunForward>(std::move(st), scratch);
}

StatusOr<Kernel> PrepareDirectConvGrad(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  TD_RETURN_IF_ERROR(CheckShape(s));
  int64_t full[2];
  for (int d = 0; d < 2; ++d) full[d] = s.dilation[d] * (s.kernel[d] - 1) - s.pad[d];
  if (full[0] < 0 || full[1] < 0) return Unimplemented("more padding than kernel");
  GradState st{.s = s,
               .loops = BestConvLoops(),
               .vector_loops = BestLoops(),
               .input = Padded(s.in_c, s.in, s.pad, s),
               .output = Padded(s.out_c, s.out, full, s),
               .need_input = view.has_out(0),
               .need_filter = view.has_out(1),
               .need_bias = view.has_out(2),
               .parts = PartsFor(ctx, s)};
  const size_t scratch = (st.weights() + st.parts * st.part()) * sizeof(float);
  return MakeKernel<GradState, RunGrad>(std::move(st), scratch);
}

}  // namespace tandem
