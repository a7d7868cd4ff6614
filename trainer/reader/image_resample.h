// Converts a rectangle of decoded pixels to a square network input: either here, or packed for
// sample_image, which makes the same input in the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/conv/sample_image.h"
#include "trainer/reader/jpeg.h"

namespace tandem::reader {

// Computes the source pixels of each output pixel in image.rect_*. `taps` is the input [2, size] of
// sample_image: rows, then columns; `flip` reverses the columns. Positions lie between pixel
// centres, with weights of 8 bits.
void PlaceTaps(const ImagePixels& image, int size, bool flip, std::span<int32_t> taps);

// The pixels that the taps read: the whole image, or only the two pixels of each tap if there are
// more than 2 * size rows or columns.
ImageSize PackedSize(const ImagePixels& image, int size);
// Copies these pixels, PackedSize() of them, to `out`, and updates the taps to their new positions.
void PackPixels(const ImagePixels& image, int size, std::span<int32_t> taps, uint8_t* out);

// Reuses its memory for each image. Not thread-safe.
class ImageResampler {
 public:
  // Interpolates image.rect_* bilinearly to `out` [3, size, size] or [size, size, 3].
  void Run(const ImagePixels& image, const ImageForm& form, bool flip, float* out);

 private:
  std::vector<int32_t> taps_;
  std::vector<std::byte> scratch_;
};

}  // namespace tandem::reader
