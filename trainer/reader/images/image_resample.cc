#include "trainer/reader/images/image_resample.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/formulas/sample_image.h"

namespace tandem::reader {
namespace {

using ops::ImageTap;
using ops::Packed;
using ops::TapOf;

void FillTaps(double begin, double length, int pixels, std::span<int32_t> taps) {
  const auto size = static_cast<int>(taps.size());
  for (int i = 0; i < size; ++i) {
    const double at = std::clamp(begin + (i + 0.5) * length / size - 0.5, 0.0, pixels - 1.0);
    const int whole = static_cast<int>(at);
    taps[static_cast<size_t>(i)] =
        Packed(ImageTap{whole, static_cast<int>(std::lround((at - whole) * 256))});
  }
}

// Returns the row or column of the image that becomes row or column `i` of the packed pixels. If
// all pixels are packed, returns `i`. Otherwise returns one of the two pixels of tap i / 2.
int Origin(std::span<const int32_t> taps, int pixels, int i) {
  if (pixels <= 2 * static_cast<int>(taps.size())) return i;
  return std::min(TapOf(taps[static_cast<size_t>(i / 2)]).at + i % 2, pixels - 1);
}

// If only pairs of pixels are packed, changes each tap to the position of its pair in the packed
// pixels.
void Pair(std::span<int32_t> taps, int pixels) {
  const auto size = static_cast<int>(taps.size());
  if (pixels <= 2 * size) return;
  for (int i = 0; i < size; ++i) {
    int32_t& tap = taps[static_cast<size_t>(i)];
    tap = Packed(ImageTap{2 * i, TapOf(tap).weight});
  }
}

}  // namespace

void PlaceTaps(const ImagePixels& image, int size, bool flip, std::span<int32_t> taps) {
  const auto n = static_cast<size_t>(size);
  FillTaps(image.y, image.rect_height, image.height, taps.first(n));
  const std::span<int32_t> columns = taps.subspan(n, n);
  FillTaps(image.x, image.rect_width, image.width, columns);
  if (flip) std::reverse(columns.begin(), columns.end());
}

ImageSize PackedSize(const ImagePixels& image, int size) {
  return {std::min(image.width, 2 * size), std::min(image.height, 2 * size)};
}

void PackPixels(const ImagePixels& image, int size, std::span<int32_t> taps, uint8_t* out) {
  const auto n = static_cast<size_t>(size);
  const std::span<int32_t> rows = taps.first(n), columns = taps.subspan(n, n);
  const ImageSize packed = PackedSize(image, size);
  for (int y = 0; y < packed.height; ++y) {
    const uint8_t* from = image.rgb + static_cast<size_t>(Origin(rows, image.height, y)) *
                                          static_cast<size_t>(image.width) * 3;
    if (packed.width == image.width) {
      out = std::copy_n(from, static_cast<size_t>(image.width) * 3, out);
      continue;
    }
    for (int x = 0; x < packed.width; ++x) {
      out = std::copy_n(from + static_cast<size_t>(Origin(columns, image.width, x)) * 3, 3, out);
    }
  }
  Pair(rows, image.height);
  Pair(columns, image.width);
}

void ImageResampler::Run(const ImagePixels& image, const ops::ImageForm& form, bool flip,
                         float* out) {
  taps_.resize(static_cast<size_t>(form.size) * 2);
  scratch_.resize(std::max(scratch_.size(), ops::ImageScratchBytes(image.width)));
  PlaceTaps(image, static_cast<int>(form.size), flip, taps_);
  ops::SampleImage(form, image.rgb, image.width, image.height, taps_.data(), scratch_.data(), out);
}

}  // namespace tandem::reader
