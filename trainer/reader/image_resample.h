// Converts a rectangle of decoded pixels to a square network input. The conversion is done in this
// file, or the pixels are packed for the operator sample_image, which computes the same input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/conv/sample_image.h"
#include "trainer/reader/jpeg.h"

namespace tandem::reader {

// Computes, for each output pixel, the source pixels in the rectangle image.rect_*. `taps`: the
// input [2, size] of sample_image, first the taps of the rows, then those of the columns. `flip`:
// reverses the columns. A tap lies between two pixel centres and has a weight of 8 bits.
void PlaceTaps(const ImagePixels& image, int size, bool flip, std::span<int32_t> taps);

// Returns the size of the packed pixels. All pixels of the image are packed, unless it has more
// than 2 * size rows or columns. In this case only the two pixels of each tap are packed.
ImageSize PackedSize(const ImagePixels& image, int size);
// Copies the packed pixels, PackedSize() of them, to `out`. Updates the taps to the positions of
// the packed pixels.
void PackPixels(const ImagePixels& image, int size, std::span<int32_t> taps, uint8_t* out);

// Makes network inputs from decoded pixels. Reuses its memory for each image. Not thread-safe.
class ImageResampler {
 public:
  // Interpolates the rectangle image.rect_* bilinearly. Writes the result to `out`, [3, size, size]
  // or [size, size, 3] according to `form`.
  void Run(const ImagePixels& image, const ops::ImageForm& form, bool flip, float* out);

 private:
  std::vector<int32_t> taps_;
  std::vector<std::byte> scratch_;
};

}  // namespace tandem::reader
