// A rectangle of decoded pixels as a square input of a network.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/reader/jpeg.h"

namespace tandem {

struct ImageTarget {
  int size = 0;                      // width and height
  bool flip = false;                 // left and right change places
  bool nhwc = false;                 // channels last; else planes
  std::array<float, 3> scale, bias;  // by channel: value * scale + bias, value in [0, 255]
};

// Keeps its memory from image to image. One thread.
class ImageResampler {
 public:
  // Bilinear interpolation between the centres of pixels (weights of 8 bits), of image.rect_* to
  // `out` [3, size, size] or [size, size, 3].
  void Run(const ImagePixels& image, const ImageTarget& target, float* out);

  // What an output position lies between: pixel `at` and the next, with `weight` / 256 of that.
  struct Tap {
    int at = 0;
    int weight = 0;
  };

 private:
  static void FillTaps(double begin, double length, int pixels, int size, std::vector<Tap>& taps);

  // The first pixels of a row of `to`, whose planes are `plane` elements apart, from blended_; how
  // many there were.
  size_t FillPlanes(const float* scale, const float* bias, size_t plane, float* to) const;

  std::vector<Tap> rows_, columns_;
  std::vector<uint16_t> blended_;  // a row of the input, times 256
};

}  // namespace tandem
