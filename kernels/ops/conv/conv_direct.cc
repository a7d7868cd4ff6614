#include "kernels/ops/conv/conv_direct.h"

#include <algorithm>
#include <vector>

#include "common/base/require.h"
#include "kernels/ops/conv/conv2d.h"
#include "kernels/ops/conv/conv_loops.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

int64_t RoundUp(int64_t n) {
  return (n + ConvLoops::kLanesMax - 1) / ConvLoops::kLanesMax * ConvLoops::kLanesMax;
}

// The planes of one image, padded with zeros, in rows of `width` elements. The rows of an output
// plane are also `width` elements apart and form one long row.
struct Padded {
  int64_t channels, in[2], out[2], pad[2];
  int64_t height, width;
  int64_t length;  // length of a long row in elements, rounded up to whole vectors
  // Number of elements from one image to the next. Unused memory follows each image, because
  // vectors read beyond the end of the image.
  int64_t stride;
  // By (channel, row, column) of the filter: the offset of its input element.
  std::vector<int32_t> offset;

  explicit Padded(const ConvShape& s) : channels(s.in_c) {
    for (int d = 0; d < 2; ++d) {
      in[d] = s.in[d];
      out[d] = s.out[d];
      pad[d] = s.pad[d];
    }
    height = in[0] + 2 * pad[0];
    width = in[1] + 2 * pad[1];
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

  // Writes an image into padded planes. The padding must already be zero.
  void Fill(const ConvLoops& loops, const float* image, float* padded) const {
    for (int64_t c = 0; c < channels; ++c) {
      loops.copy_rows(image + c * in[0] * in[1], in[1],
                      padded + (c * height + pad[0]) * width + pad[1], width, in[0], in[1]);
    }
  }

  // Copies `count` output planes to `image`, without the unused elements of the long rows.
  void Extract(const ConvLoops& loops, const float* rows, int64_t count, float* image) const {
    for (int64_t c = 0; c < count; ++c) {
      loops.copy_rows(rows + c * length, width, image + c * out[0] * out[1], out[1], out[0],
                      out[1]);
    }
  }
};

// UNIMPLEMENTED: this kernel does not support the convolution, or the convolution has too many
// channels. Measured on Sapphire Rapids with 3x3 filters: with 16 channels this kernel is as fast
// as oneDNN. With 32 channels, oneDNN's blocked layouts are faster (118 against 105 GFLOP/s
// forward, 109 against 81 backward).
Status CheckShape(const ConvShape& s) {
  constexpr int64_t kChannelsMax = 24;
  if (s.stride[0] != 1 || s.stride[1] != 1 || s.groups != 1) {
    return Unimplemented("this kernel supports only stride 1 and one group");
  }
  if (!s.plain()) return Unimplemented("this kernel supports only layout NCHW");
  if (s.in_c > kChannelsMax || s.out_c > kChannelsMax) {
    return Unimplemented("this kernel supports at most %d channels", kChannelsMax);
  }
  if (s.batch < 1 || s.in_c < 1 || s.out_c < 1 || s.in_plane() > 1 << 16 || s.pad[0] > 256 ||
      s.pad[1] > 256) {
    return Unimplemented("this kernel supports only images of up to 2^16 pixels");
  }
  return OkStatus();
}

int PartsFor(const PrepareContext& ctx, const ConvShape& s) {
  constexpr int64_t kProductsPerElement = 16;
  const int64_t products = s.batch * s.out_c * s.out_plane() * s.taps();
  return static_cast<int>(std::min<int64_t>(
      s.batch, tandem::ops::PartsFor(ctx.threads, products / kProductsPerElement)));
}

// Returns true if vectors of channels (ConvLoops::Transposed) are faster than long rows: if
// computing the unused elements of the long rows takes longer than transposing the result.
bool UseTransposed(const ConvShape& s, const ConvLoops& loops, const Padded& padded) {
  return s.out_c % loops.lanes == 0 && s.out_plane() * 8 < padded.length * 7;
}

// ---- Forward ------------------------------------------------------------------------------------

struct ForwardState {
  ConvShape s;
  const ConvLoops& loops;
  const Loops& vector_loops;
  Padded padded;
  int parts;
  int64_t weights() const { return RoundUp(s.out_c * s.taps()); }
  int64_t rows() const { return s.out_c * padded.length; }
  int64_t part() const { return padded.stride + rows(); }
};

// Transposes the filter: to[t, o] = from[o, t].
void PackWeights(const float* from, int64_t channels, int64_t taps, float* to) {
  for (int64_t o = 0; o < channels; ++o) {
    for (int64_t t = 0; t < taps; ++t) to[t * channels + o] = from[o * taps + t];
  }
}

// Computes the output with vectors of channels: first all channels of each position, then the
// transpose of this result. REQUIRES: the output channels fill whole vectors.
void ForwardTransposed(const ForwardState& st, const float* in, const float* weights,
                       const float* bias, float* scratch, float* out) {
  const ConvShape& s = st.s;
  st.loops.transposed({.in = in,
                       .w = weights,
                       .bias = bias,
                       .offset = st.padded.offset.data(),
                       .taps = s.taps(),
                       .channels = s.out_c,
                       .rows = s.out[0],
                       .cols = s.out[1],
                       .width = st.padded.width,
                       .out = scratch});
  st.vector_loops.transpose(scratch, out, s.out_plane(), s.out_c);
}

void ForwardRows(const ForwardState& st, const float* in, const float* weights, const float* bias,
                 float* scratch, float* out) {
  const ConvShape& s = st.s;
  st.loops.forward({.in = in,
                    .w = weights,
                    .bias = bias,
                    .offset = st.padded.offset.data(),
                    .taps = s.taps(),
                    .channels = s.out_c,
                    .length = st.padded.length,
                    .out = scratch,
                    .out_ld = st.padded.length});
  st.padded.Extract(st.loops, scratch, s.out_c, out);
}

Status RunForward(ForwardState& st, const KernelArgs& args) {
  const ConvShape& s = st.s;
  float* weights = static_cast<float*>(args.scratch);
  PackWeights(InF32(args, 1), s.out_c, s.taps(), weights);
  const auto image = UseTransposed(s, st.loops, st.padded) ? ForwardTransposed : ForwardRows;
  ParallelFor(st.parts, s.batch, [&](int part, int64_t begin, int64_t end) {
    float* in = weights + st.weights() + part * st.part();
    std::fill_n(in, st.padded.stride, 0.0f);
    for (int64_t n = begin; n < end; ++n) {
      st.padded.Fill(st.loops, InF32(args, 0) + n * s.in_c * s.in_plane(), in);
      image(st, in, weights, InF32(args, 2), in + st.padded.stride,
            OutF32(args, 0) + n * s.out_c * s.out_plane());
    }
  });
  return OkStatus();
}

// ---- Gradients ----------------------------------------------------------------------------------

struct GradState {
  // The number of images per chunk. The planes of a chunk fit in the L1 cache.
  static constexpr int64_t kChunk = 4;

  ConvShape s;
  const ConvLoops& loops;
  const Loops& vector_loops;
  Padded padded;
  bool need_input, need_filter, need_bias;
  bool transposed;  // compute the filter's gradient with vectors of channels
  int parts;

  int64_t positions() const { return s.kernel[0] * s.kernel[1]; }
  int64_t weights() const { return need_input ? RoundUp(s.out_c * s.taps()) : 0; }
  // Returns the number of elements of the output gradient of one image in long rows.
  int64_t row_stride() const { return s.out_c * padded.length; }
  int64_t acc() const { return need_filter ? s.out_c * s.taps() * ConvLoops::kLanesMax : 0; }
  int64_t turned() const {
    return need_filter && transposed ? RoundUp(s.out_c * s.out_plane()) : 0;
  }
  // Scratch elements of one part, in this order: bias sums, filter sums, gradients as long rows,
  // inputs, the input's gradient, transposed gradients.
  int64_t part() const {
    return RoundUp(s.out_c) + acc() + kChunk * turned() +
           kChunk * (row_stride() + (need_filter ? padded.stride : 0)) +
           (need_input ? padded.stride : 0);
  }
};

// Reorders the filter: to[position, o, c] = filter[o, c, position].
void PackPositions(const ConvShape& s, const float* filter, float* to) {
  const int64_t positions = s.kernel[0] * s.kernel[1];
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t i = 0; i < s.out_c * s.in_c; ++i) *to++ = filter[i * positions + t];
  }
}

// Copies the output gradients of `images` images into long rows. The unused elements of the rows
// must already be zero.
void SpreadRows(const GradState& st, const float* g, int64_t images, float* rows) {
  const ConvShape& s = st.s;
  for (int64_t i = 0; i < images * s.out_c; ++i) {
    st.loops.copy_rows(g + i * s.out_plane(), s.out[1], rows + i * st.padded.length,
                       st.padded.width, s.out[0], s.out[1]);
  }
}

// Adds to `acc` the filter gradient of `images` images. `padded`: the padded inputs.
void FilterGradRows(const GradState& st, const float* padded, const float* rows, int64_t images,
                    float* acc) {
  st.loops.weights({.in = padded,
                    .g = rows,
                    .offset = st.padded.offset.data(),
                    .taps = st.s.taps(),
                    .channels = st.s.out_c,
                    .length = st.padded.length,
                    .g_ld = st.padded.length,
                    .images = images,
                    .in_stride = st.padded.stride,
                    .g_stride = st.row_stride(),
                    .acc = acc});
}

void FilterGradTransposed(const GradState& st, const float* padded, const float* g, int64_t images,
                          float* turned, float* acc) {
  const ConvShape& s = st.s;
  for (int64_t n = 0; n < images; ++n) {
    st.vector_loops.transpose(g + n * s.out_c * s.out_plane(), turned + n * st.turned(), s.out_c,
                              s.out_plane());
  }
  st.loops.weights_transposed({.in = padded,
                               .g = turned,
                               .offset = st.padded.offset.data(),
                               .taps = s.taps(),
                               .channels = s.out_c,
                               .rows = s.out[0],
                               .cols = s.out[1],
                               .width = st.padded.width,
                               .images = images,
                               .in_stride = st.padded.stride,
                               .g_stride = st.turned(),
                               .acc = acc});
}

// Returns the gradient of filter weight (o, t) from the sums `acc` of one part.
float Collect(const GradState& st, const float* acc, int64_t o, int64_t t) {
  const int64_t taps = st.s.taps(), lanes = st.loops.lanes;
  if (st.transposed) return acc[(o / lanes * taps + t) * ConvLoops::kLanesMax + o % lanes];
  return st.vector_loops.sum(acc + (o * taps + t) * ConvLoops::kLanesMax, ConvLoops::kLanesMax);
}

// Computes the input gradient of one image. Adds the contributions of all filter positions in
// `padded`, and copies the result without the padding to `gin`.
void InputGrad(const GradState& st, const float* weights, const float* rows, float* padded,
               float* gin) {
  const ConvShape& s = st.s;
  const int64_t plane = st.padded.height * st.padded.width;
  std::fill_n(padded, st.padded.stride, 0.0f);
  st.loops.inputs({.g = rows,
                   .w = weights,
                   .offset = st.padded.offset.data(),
                   .positions = st.positions(),
                   .channels = s.in_c,
                   .out_channels = s.out_c,
                   .length = st.padded.length,
                   .plane = plane,
                   .gin = padded});
  const float* inside = padded + s.pad[0] * st.padded.width + s.pad[1];
  for (int64_t c = 0; c < s.in_c; ++c) {
    st.loops.copy_rows(inside + c * plane, st.padded.width, gin + c * s.in_plane(), s.in[1],
                       s.in[0], s.in[1]);
  }
}

void GradPart(const GradState& st, const KernelArgs& args, const float* weights, float* scratch,
              int64_t begin, int64_t end) {
  const ConvShape& s = st.s;
  const int64_t in_image = s.in_c * s.in_plane(), out_image = s.out_c * s.out_plane();
  std::fill_n(scratch, st.part(), 0.0f);
  float* bias = scratch;
  float* acc = bias + RoundUp(s.out_c);
  float* rows = acc + st.acc();
  float* inputs = rows + GradState::kChunk * st.row_stride();
  float* gin = inputs + (st.need_filter ? GradState::kChunk * st.padded.stride : 0);
  float* turned = gin + (st.need_input ? st.padded.stride : 0);
  for (int64_t n = begin; n < end; n += GradState::kChunk) {
    const int64_t images = std::min(GradState::kChunk, end - n);
    const float* g = InF32(args, 2) + n * out_image;
    if (st.need_input || !st.transposed) SpreadRows(st, g, images, rows);
    for (int64_t i = 0; st.need_filter && i < images; ++i) {
      st.padded.Fill(st.loops, InF32(args, 0) + (n + i) * in_image, inputs + i * st.padded.stride);
    }
    if (st.need_filter && st.transposed) {
      FilterGradTransposed(st, inputs, g, images, turned, acc);
    } else if (st.need_filter) {
      FilterGradRows(st, inputs, rows, images, acc);
    }
    for (int64_t i = 0; i < images; ++i) {
      if (st.need_input) {
        InputGrad(st, weights, rows + i * st.row_stride(), gin,
                  OutF32(args, 0) + (n + i) * in_image);
      }
      for (int64_t o = 0; st.need_bias && o < s.out_c; ++o) {
        bias[o] += st.vector_loops.sum(g + i * out_image + o * s.out_plane(), s.out_plane());
      }
    }
  }
}

// Adds up the sums of all parts, in the order of the parts.
void Reduce(const GradState& st, const float* scratch, float* gfilter, float* gbias) {
  const int64_t taps = st.s.taps();
  for (int64_t i = 0; gfilter != nullptr && i < st.s.out_c * taps; ++i) {
    float total = 0.0f;
    for (int part = 0; part < st.parts; ++part) {
      const float* acc = scratch + part * st.part() + RoundUp(st.s.out_c);
      total += Collect(st, acc, i / taps, i % taps);
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
  if (st.need_input) PackPositions(st.s, InF32(args, 1), weights);
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
  TD_REQUIRE(view.out(0).shape == Shape({s.batch, s.out_c, s.out[0], s.out[1]}));
  TD_RETURN_IF_ERROR(CheckShape(s));
  ForwardState st{s, BestConvLoops(), BestLoops(), Padded(s), PartsFor(ctx, s)};
  const size_t scratch = (st.weights() + st.parts * st.part()) * sizeof(float);
  return MakeKernel<ForwardState, RunForward>(std::move(st), scratch);
}

StatusOr<Kernel> PrepareDirectConvGrad(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const ConvShape s, ConvShapeOf(view));
  TD_REQUIRE(view.in(2).shape == Shape({s.batch, s.out_c, s.out[0], s.out[1]}));
  TD_RETURN_IF_ERROR(CheckShape(s));
  GradState st{.s = s,
               .loops = BestConvLoops(),
               .vector_loops = BestLoops(),
               .padded = Padded(s),
               .need_input = view.has_out(0),
               .need_filter = view.has_out(1),
               .need_bias = view.has_out(2),
               .transposed = false,
               .parts = PartsFor(ctx, s)};
  st.transposed = UseTransposed(s, st.loops, st.padded);
  const size_t scratch = (st.weights() + st.parts * st.part()) * sizeof(float);
  return MakeKernel<GradState, RunGrad>(std::move(st), scratch);
}

}  // namespace tandem::ops
