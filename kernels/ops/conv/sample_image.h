// Declarations for the operator sample_image, its kernels, and readers that sample on the CPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Converts pixels to elements: value * scale + bias per channel, with value in [0, 255].
struct ImageForm {
  int64_t size = 0;            // width and height of the result in pixels
  bool channels_last = false;  // shape of the result; true: [size, size, 3], false: [3, size, size]
  std::array<float, 3> scale{}, bias{};
};

// Returns the scratch bytes that SampleImage needs for an image of `width` pixels per row.
size_t ImageScratchBytes(int64_t width);

// Samples one image at the positions `taps` [2, size]: rows, then columns
// (formulas/sample_image.h). `rgb` has `height` rows of `width` RGB pixels. Writes f32 to `out`.
// REQUIRES: all taps are inside the image.
void SampleImage(const ImageForm& form, const uint8_t* rgb, int64_t width, int64_t height,
                 const int32_t* taps, void* scratch, float* out);

struct SampledImages {
  ImageForm form;
  int64_t count = 0;
  int64_t pixel_bytes = 0;  // bytes of the pixels of all images together
};
// Returns the parsed inputs and attributes of a sample_image operator. INVALID_ARGUMENT: inputs and
// attributes do not match.
StatusOr<SampledImages> SampledImagesOf(const OpView& view);

}  // namespace tandem::ops
