// A rectangle of decoded pixels as a square input of a network: made here, or packed for
// sample_image, which makes the same of it in the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/conv/sample_image.h"
#include "trainer/reader/jpeg.h"

namespace tandem {

// Where the pixels that are made lie in those of image.rect_*: `taps` [2, size] of sample_image,
// rows and then columns, those from right to left with `flip`. Between the centres of pixels,
// weights of 8 bits.
void PlaceTaps(const ImagePixels& image, int size, bool flip, std::span<int32_t> taps);

// The pixels that taps read: image's own, or of more than 2 * size rows or columns the two of each
// tap alone.
ImageSize PackedSize(const ImagePixels& image, int size);
// Copies them, PackedSize() of them, to `out`, and has the taps say where they are now.
void PackPixels(const ImagePixels& image, int size, std::span<int32_t> taps, uint8_t* out);

// Keeps its memory from image to image. One thread.
class ImageResampler {
 public:
  // Bilinear interpolation of image.rect_* to `out` [3, size, size] or [size, size, 3].
  void Run(const ImagePixels& image, const ImageForm& form, bool flip, float* out);

 private:
  std::vector<int32_t> taps_;
  std::vector<std::byte> scratch_;
};

}  // namespace tandem
