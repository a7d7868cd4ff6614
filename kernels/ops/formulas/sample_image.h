// The rules of sample_image: places between pixels, and what an image may be.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

namespace tandem {
namespace {

// Between pixel `at` of a row or column and the next one, with `weight` / 256 of that; behind the
// last pixel it is once more.
struct ImageTap {
  int at, weight;
};
TD_HD int32_t Packed(const ImageTap& tap) { return tap.at * 512 + tap.weight; }
TD_HD ImageTap TapOf(int32_t packed) { return {packed >> 9, packed & 511}; }

// Whether a place lies in a row or column of `pixels`.
TD_HD bool LiesIn(const ImageTap& tap, int64_t pixels) {
  return tap.at >= 0 && tap.at < pixels && tap.weight <= 256;
}

// An image in the memory of all: its first byte, its width and its height. More than two pixels
// each way for each that is made of them nobody reads.
struct PackedImage {
  int64_t begin, width, height;
};
TD_HD bool LiesIn(const PackedImage& image, int64_t size, int64_t bytes) {
  return image.width >= 1 && image.height >= 1 && image.width <= 2 * size &&
         image.height <= 2 * size && image.begin >= 0 &&
         image.begin <= bytes - image.width * image.height * 3;
}

}  // namespace
}  // namespace tandem
