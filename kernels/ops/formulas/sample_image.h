// The formulas of the operator sample_image: positions between pixels, and checks of positions and
// images.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

// A position between pixel `at` of a row or column and the next pixel. The next pixel has the
// weight `weight` / 256. After the last pixel, the next pixel is the last pixel itself.
struct ImageTap {
  int at, weight;
};
TD_HD int32_t Packed(const ImageTap& tap) { return tap.at * 512 + tap.weight; }
TD_HD ImageTap TapOf(int32_t packed) { return {packed >> 9, packed & 511}; }

// Returns true if the position is inside a row or column of `pixels` pixels.
TD_HD bool LiesIn(const ImageTap& tap, int64_t pixels) {
  return tap.at >= 0 && tap.at < pixels && tap.weight <= 256;
}

// One image in a buffer of all images: offset of its first byte, width and height. Width and height
// may be at most twice those of the result. A larger image is invalid, because some of its pixels
// would not be read.
struct PackedImage {
  int64_t begin, width, height;
};
TD_HD bool LiesIn(const PackedImage& image, int64_t size, int64_t bytes) {
  return image.width >= 1 && image.height >= 1 && image.width <= 2 * size &&
         image.height <= 2 * size && image.begin >= 0 &&
         image.begin <= bytes - image.width * image.height * 3;
}

}  // namespace
}  // namespace tandem::ops
