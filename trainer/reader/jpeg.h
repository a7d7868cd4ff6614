// JPEG images, decoded where and as finely as needed (libjpeg-turbo).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/status.h"

namespace tandem {

struct ImageSize {
  int width = 0, height = 0;
};

struct ImageRect {
  int x = 0, y = 0, width = 0, height = 0;
};

// RGB pixels of a part of an image, and where in them what was asked for lies.
struct ImagePixels {
  const uint8_t* rgb = nullptr;  // rows of width * 3 bytes, back to back
  int width = 0, height = 0;
  double x = 0, y = 0, rect_width = 0, rect_height = 0;
};

// Keeps its memory from image to image. One thread.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. `file` must stay until the next Open(). DATA_LOSS for what is no JPEG image
  // of at most 2^27 pixels.
  StatusOr<ImageSize> Open(std::string_view file);

  // Decodes the rectangle, and little around it, scaled down in the transform by the largest of 1,
  // 2, 4 and 8 that leaves the rectangle at least as large as `wanted`. Grey images become RGB,
  // CMYK ones (as Adobe writes them, inverted) by the product with black. The pixels are valid
  // until the next call. DATA_LOSS for a damaged image, as far as it was read. REQUIRES: Open(),
  // for each call; the rectangle lies in the image and is not empty.
  StatusOr<ImagePixels> Decode(const ImageRect& rect, const ImageSize& wanted);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
