// Code shared by sample_image, its kernels, and readers that make the same samples on the CPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/ops/core/op.h"

namespace tandem {

// Conversion of pixels to elements: value * scale + bias per channel, with value in [0, 255].
struct ImageForm {
  int64_t size = 0;            // width and height of the result
  bool channels_last = false;  // true: [size, size, 3]; false: [3, size, size]
  std::array<float, 3> scale{}, bias{};
};

// Returns the scratch bytes for images that are `width` pixels wide.
size_t ImageScratchBytes(int64_t width);

// Samples one image of `width` * `height` pixels, rows of RGB, at the positions `taps` [2, size]
// (rows, then columns; formulas/sample_image.h). Writes f32 to `out`. REQUIRES: the taps are inside
// the image.
void SampleImage(const ImageForm& form, const uint8_t* rgb, int64_t width, int64_t height,
                 const int32_t* taps, void* scratch, float* out);

struct SampledImages {
  ImageForm form;
  int64_t count = 0;
  int64_t pixel_bytes = 0;  // sum over all images
};
// Returns the parsed inputs and attributes of sample_image. INVALID_ARGUMENT: they do not match.
StatusOr<SampledImages> SampledImagesOf(const OpView& view);

}  // namespace tandem
