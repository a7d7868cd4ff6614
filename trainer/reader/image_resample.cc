#include "trainer/reader/image_resample.h"

#include <algorithm>
#include <cmath>

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

void ImageResampler::Run(const ImagePixels& image, const ImageTarget& target, float* out) {
  const auto size = static_cast<size_t>(target.size);
  FillTaps(image.y, image.rect_height, image.height, target.size, rows_);
  FillTaps(image.x, image.rect_width, image.width, target.size, columns_);
  if (target.flip) std::reverse(columns_.begin(), columns_.end());
  const size_t bytes = static_cast<size_t>(image.width) * 3;
  blended_.resize(bytes + 3);
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
    float* to = out + y * size * step;
    for (const Tap& tap : columns_) {
      const uint16_t* left = row + static_cast<size_t>(tap.at) * 3;
      for (size_t c = 0; c < 3; ++c) {
        const int value = left[c] * (256 - tap.weight) + left[c + 3] * tap.weight;
        to[c * plane] = static_cast<float>(value) * scale[c] + target.bias[c];
      }
      to += step;
    }
  }
}

}  // namespace tandem
