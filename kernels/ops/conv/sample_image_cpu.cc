#include <algorithm>
#include <cstring>

#include "common/base/require.h"
#include "kernels/ops/conv/sample_image.h"
#include "kernels/ops/core/op_defs.h"
#include "kernels/ops/cpu/cpu_args.h"
#include "kernels/ops/cpu/half.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/formulas/sample_image.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tandem::ops {
namespace {

// Returns colour `c` of a pixel, interpolated between two neighbouring pixels of a blended row.
// tap.weight / 256 is the weight of the second pixel.
float ColourAt(const uint16_t* left, const ImageTap& tap, const float* scale, const float* bias,
               size_t c) {
  const int value = left[c] * (256 - tap.weight) + left[c + 3] * tap.weight;
  return static_cast<float>(value) * scale[c] + bias[c];
}

#if defined(__SSE2__)
// Returns all three colours of a pixel, as ColourAt computes them. The fourth number of the result
// has no meaning.
__m128 ColoursAt(const uint16_t* left, const ImageTap& tap, __m128 scale, __m128 bias) {
  const __m128i here = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(left));
  const __m128i next = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(left + 3));
  // _mm_madd_epi16 multiplies signed numbers. Therefore 2^15 is subtracted from each value, and 256
  // * 2^15 is added to the sum, because the weights add up to 256.
  const __m128i pairs =
      _mm_xor_si128(_mm_unpacklo_epi16(here, next), _mm_set1_epi16(static_cast<short>(0x8000)));
  const __m128i weights = _mm_set1_epi32((256 - tap.weight) | tap.weight << 16);
  const __m128i sums = _mm_add_epi32(_mm_madd_epi16(pairs, weights), _mm_set1_epi32(256 << 15));
  return _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(sums), scale), bias);
}
#endif

// Converts a blended row, four pixels at a time. Writes one row to each of three planes, which are
// `plane` elements apart. Returns the number of pixels written; the caller converts the last ones.
size_t FillPlanes(const uint16_t* row, const int32_t* columns, size_t size, const float* scale,
                  const float* bias, size_t plane, float* to) {
  size_t i = 0;
#if defined(__SSE2__)
  const __m128 scales = _mm_setr_ps(scale[0], scale[1], scale[2], 0);
  const __m128 biases = _mm_setr_ps(bias[0], bias[1], bias[2], 0);
  for (; i + 4 <= size; i += 4) {
    __m128 of[4];
    for (size_t k = 0; k < 4; ++k) {
      const ImageTap tap = TapOf(columns[i + k]);
      of[k] = ColoursAt(row + static_cast<size_t>(tap.at) * 3, tap, scales, biases);
    }
    _MM_TRANSPOSE4_PS(of[0], of[1], of[2], of[3]);
    for (size_t c = 0; c < 3; ++c) _mm_storeu_ps(to + c * plane + i, of[c]);
  }
#else
  (void)row, (void)columns, (void)size, (void)scale, (void)bias, (void)plane, (void)to;
#endif
  return i;
}

struct State {
  SampledImages images;
  int threads;
  size_t scratch;  // scratch memory per thread, in bytes
};

// INVALID_ARGUMENT: the kernel would read outside the tensors.
Status Check(const SampledImages& s, const PackedImage* images, const int32_t* taps) {
  const int64_t size = s.form.size;
  for (int64_t i = 0; i < s.count; ++i, taps += 2 * size) {
    if (!LiesIn(images[i], size, s.pixel_bytes)) {
      return InvalidArgument(
          "image %d (%dx%d pixels at byte %d) lies outside of the %d bytes of Pixels, or is larger "
          "than %dx%d pixels",
          i, images[i].width, images[i].height, images[i].begin, s.pixel_bytes, 2 * size, 2 * size);
    }
    for (int64_t k = 0; k < 2 * size; ++k) {
      if (LiesIn(TapOf(taps[k]), k < size ? images[i].height : images[i].width)) continue;
      return InvalidArgument("element %d of Taps is %d, which lies outside of image %d",
                             i * 2 * size + k, taps[k], i);
    }
  }
  return OkStatus();
}

Status Run(State& s, const KernelArgs& args) {
  const auto* pixels = static_cast<const uint8_t*>(args.in[0]);
  const auto* images = static_cast<const PackedImage*>(args.in[1]);
  const auto* taps = static_cast<const int32_t*>(args.in[2]);
  TD_RETURN_IF_ERROR(Check(s.images, images, taps));
  const ImageForm& form = s.images.form;
  ParallelEach(s.threads, s.images.count, [&](int thread, int64_t i) {
    SampleImage(form, pixels + images[i].begin, images[i].width, images[i].height,
                taps + i * 2 * form.size,
                static_cast<std::byte*>(args.scratch) + static_cast<size_t>(thread) * s.scratch,
                OutF32(args, 0) + i * 3 * form.size * form.size);
  });
  return OkStatus();
}

StatusOr<Kernel> Prepare(const OpView& view, const PrepareContext& ctx) {
  TD_ASSIGN_OR_RETURN(const SampledImages images, SampledImagesOf(view));
  const int threads = PartsFor(ctx.threads, view.out(0).shape.numel() * 2);
  TD_REQUIRE(images.form.size >= 1 && view.out(0).shape.rank() == 4);
  const size_t scratch = ImageScratchBytes(2 * images.form.size);
  return MakeKernel<State, Run>({images, threads, scratch}, static_cast<size_t>(threads) * scratch);
}

}  // namespace

size_t ImageScratchBytes(int64_t width) {
  // A scratch row contains a blended row, a copy of its last pixel, and one more element, because
  // reading four colours at the copy also reads this element.
  return (static_cast<size_t>(width) * 3 + 4) * sizeof(uint16_t) / 64 * 64 + 64;
}

void SampleImage(const ImageForm& form, const uint8_t* rgb, int64_t width, int64_t height,
                 const int32_t* taps, void* scratch, float* out) {
  TD_REQUIRE(form.size >= 1 && width >= 1 && height >= 1 && scratch != nullptr);
  const auto size = static_cast<size_t>(form.size), bytes = static_cast<size_t>(width) * 3;
  const int32_t* const columns = taps + size;
  float scale[3];
  for (size_t c = 0; c < 3; ++c) scale[c] = form.scale[c] / 65536.0f;
  const float* const bias = form.bias.data();
  const size_t step = form.channels_last ? 3 : 1, plane = form.channels_last ? 1 : size * size;
  auto* const row = static_cast<uint16_t*>(scratch);
  for (size_t y = 0; y < size; ++y) {
    const ImageTap between = TapOf(taps[y]);
    const uint8_t* upper = rgb + static_cast<size_t>(between.at) * bytes;
    const uint8_t* lower = between.at + 1 < height ? upper + bytes : upper;
    const auto weight = static_cast<uint16_t>(between.weight);
    const auto rest = static_cast<uint16_t>(256 - weight);
    for (size_t i = 0; i < bytes; ++i) {
      row[i] = static_cast<uint16_t>(upper[i] * rest + lower[i] * weight);
    }
    // The last pixel is repeated after the end of the row.
    std::copy_n(row + bytes - 3, 3, row + bytes);
    float* const to = out + y * size * step;
    size_t i = form.channels_last ? 0 : FillPlanes(row, columns, size, scale, bias, plane, to);
    for (; i < size; ++i) {
      const ImageTap tap = TapOf(columns[i]);
      const uint16_t* left = row + static_cast<size_t>(tap.at) * 3;
      for (size_t c = 0; c < 3; ++c) to[i * step + c * plane] = ColourAt(left, tap, scale, bias, c);
    }
  }
}

constinit const KernelList kSampleImageCpu = {{"vector", OrWidened<Prepare>}};

}  // namespace tandem::ops
