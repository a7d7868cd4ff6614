// What sample_image and its kernels share, and readers that make the same samples by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/ops/core/op.h"

namespace tandem {

// How pixels become elements: value * scale + bias by channel, value in [0, 255].
struct ImageForm {
  int64_t size = 0;            // width and height of what is made
  bool channels_last = false;  // [size, size, 3]; else [3, size, size]
  std::array<float, 3> scale{}, bias{};
};

// Bytes of scratch memory for images that are `width` pixels wide.
size_t ImageScratchBytes(int64_t width);

// One image of `width` * `height` pixels, rows of RGB, at the places `taps` [2, size] (rows, then
// columns; formulas/sample_image.h) to `out`, in f32. REQUIRES: the taps lie in the image.
void SampleImage(const ImageForm& form, const uint8_t* rgb, int64_t width, int64_t height,
                 const int32_t* taps, void* scratch, float* out);

struct SampledImages {
  ImageForm form;
  int64_t count = 0;
  int64_t pixel_bytes = 0;  // of all images
};
// Inputs and attributes of sample_image. INVALID_ARGUMENT when they do not fit.
StatusOr<SampledImages> SampledImagesOf(const OpView& view);

}  // namespace tandem
