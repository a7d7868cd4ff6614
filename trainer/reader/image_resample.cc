#include "trainer/reader/image_resample.h"

#include <algorithm>
#include <cmath>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tandem {

void ImageResampler::FillTaps(double begin, double length, int pixels, int size,
                              std::vector<Tap>& taps) {
  taps.resize(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    const double at = std::clamp(begin + (i + 0.5) * length / size - 0.5, 0.0, pixels - 1.0);
    const int whole = static_cast<int>(at);
    taps[static_cast<size_t>(i)] = {whole, static_cast<int>(std::lround((at - whole) * 256))};
  }
}

namespace {

// The colour of `c` between two pixels of a blended row, by the weight of the second of 256.
float ColourAt(const uint16_t* left, const ImageResampler::Tap& tap, const float* scale,
               const float* bias, size_t c) {
  const int value = left[c] * (256 - tap.weight) + left[c + 3] * tap.weight;
  return static_cast<float>(value) * scale[c] + bias[c];
}

#if defined(__SSE2__)
// The same of all colours; the fourth number means nothing.
__m128 ColoursAt(const uint16_t* left, const ImageResampler::Tap& tap, __m128 scale, __m128 bias) {
  const __m128i here = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(left));
  const __m128i next = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(left + 3));
  // Products of signed numbers: 2^15 less, and as much more of the sum, whose weights are 256.
  const __m128i pairs =
      _mm_xor_si128(_mm_unpacklo_epi16(here, next), _mm_set1_epi16(static_cast<short>(0x8000)));
  const __m128i weights = _mm_set1_epi32((256 - tap.weight) | tap.weight << 16);
  const __m128i sums = _mm_add_epi32(_mm_madd_epi16(pairs, weights), _mm_set1_epi32(256 << 15));
  return _mm_add_ps(_mm_mul_ps(_mm_cvtepi32_ps(sums), scale), bias);
}
#endif

}  // namespace

// Four pixels at a time, turned into rows of planes.
size_t ImageResampler::FillPlanes(const float* scale, const float* bias, size_t plane,
                                  float* to) const {
  size_t i = 0;
#if defined(__SSE2__)
  const __m128 scales = _mm_setr_ps(scale[0], scale[1], scale[2], 0);
  const __m128 biases = _mm_setr_ps(bias[0], bias[1], bias[2], 0);
  for (; i + 4 <= columns_.size(); i += 4) {
    __m128 of[4];
    for (size_t k = 0; k < 4; ++k) {
      const Tap& tap = columns_[i + k];
      of[k] = ColoursAt(blended_.data() + static_cast<size_t>(tap.at) * 3, tap, scales, biases);
    }
    _MM_TRANSPOSE4_PS(of[0], of[1], of[2], of[3]);
    for (size_t c = 0; c < 3; ++c) _mm_storeu_ps(to + c * plane + i, of[c]);
  }
#else
  (void)scale, (void)bias, (void)plane, (void)to;
#endif
  return i;
}

void ImageResampler::Run(const ImagePixels& image, const ImageTarget& target, float* out) {
  const auto size = static_cast<size_t>(target.size);
  FillTaps(image.y, image.rect_height, image.height, target.size, rows_);
  FillTaps(image.x, image.rect_width, image.width, target.size, columns_);
  if (target.flip) std::reverse(columns_.begin(), columns_.end());
  const size_t bytes = static_cast<size_t>(image.width) * 3;
  blended_.resize(bytes + 4);
  float scale[3];
  for (size_t c = 0; c < 3; ++c) scale[c] = target.scale[c] / 65536.0f;
  const size_t step = target.nhwc ? 3 : 1, plane = target.nhwc ? 1 : size * size;
  for (size_t y = 0; y < size; ++y) {
    const uint8_t* upper = image.rgb + static_cast<size_t>(rows_[y].at) * bytes;
    const uint8_t* lower = rows_[y].at + 1 < image.height ? upper + bytes : upper;
    const auto weight = static_cast<uint16_t>(rows_[y].weight);
    const auto rest = static_cast<uint16_t>(256 - weight);
    uint16_t* const row = blended_.data();
    for (size_t i = 0; i < bytes; ++i) {
      row[i] = static_cast<uint16_t>(upper[i] * rest + lower[i] * weight);
    }
    std::copy_n(row + bytes - 3, 3, row + bytes);  // behind the last pixel: itself
    float* const to = out + y * size * step;
    size_t i = target.nhwc ? 0 : FillPlanes(scale, target.bias.data(), plane, to);
    for (; i < size; ++i) {
      const uint16_t* left = row + static_cast<size_t>(columns_[i].at) * 3;
      for (size_t c = 0; c < 3; ++c) {
        to[i * step + c * plane] = ColourAt(left, columns_[i], scale, target.bias.data(), c);
      }
    }
  }
}

}  // namespace tandem
