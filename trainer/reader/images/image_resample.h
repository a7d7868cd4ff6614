// Converts a rectangle of decoded pixels to a square network input. Either this file computes the
// input, or it packs the pixels for the operator sample_image, which computes the same input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops/conv/sample_image.h"
#include "trainer/reader/images/image_pixels.h"

namespace tandem::reader {

// Computes, for each output pixel, the source pixels in the rectangle image.rect_*. `taps`:
// receives the input [2, size] of sample_image, first the taps of the rows, then those of the
// columns. `flip`: reverses the columns. A tap lies between two pixel centres and has a weight of 8
// bits.
void PlaceTaps(const ImagePixels& image, int size, bool flip, std::span<int32_t> taps);

// Returns the size of the packed pixels. PackPixels packs all pixels of the image, unless the image
// has more than 2 * size rows or columns. In this case PackPixels packs only the two pixels of each
// tap.
ImageSize PackedSize(const ImagePixels& image, int size);
// Copies the packed pixels to `out`, which has space for PackedSize() pixels. Changes the taps to
// the positions of the packed pixels.
void PackPixels(const ImagePixels& image, int size, std::span<int32_t> taps, uint8_t* out);

// Makes network inputs from decoded pixels. Reuses its memory for each image. Not thread-safe.
class ImageResampler {
 public:
  // Interpolates the rectangle image.rect_* bilinearly. Writes the result to `out`, [3, size, size]
  // or [size, size, 3] according to `form`. `flip`: mirrors the result.
  void Run(const ImagePixels& image, const ops::ImageForm& form, bool flip, float* out);

 private:
  std::vector<int32_t> taps_;
  std::vector<std::byte> scratch_;
};

}  // namespace tandem::reader
