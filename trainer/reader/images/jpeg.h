// Decodes JPEG images with libjpeg-turbo: only the needed part, and at the needed resolution.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "trainer/reader/images/image_pixels.h"

namespace tandem::reader {

// Decodes one image after another, and reuses its memory. Not thread-safe.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header of an image and returns the image's size. `file`: content of the file; must
  // stay valid until the next Open(). DATA_LOSS: `file` is not a JPEG image, or is larger
  // than the limits of ToImageSize().
  StatusOr<ImageSize> Open(std::string_view file);

  // Decodes the rectangle with a small margin. The decoder scales the rectangle down by 1, 2, 4 or
  // 8: by the largest factor with which the rectangle is at least as large as `wanted`. Grey images
  // become RGB. CMYK images (inverted, as Adobe writes them) become RGB by multiplication with
  // black. The pixels are valid until the next call. DATA_LOSS: the part of the file that was read
  // is damaged. REQUIRES: Open() was called since the previous Decode(); the rectangle is not empty
  // and lies in the image.
  StatusOr<ImagePixels> Decode(const ImageRect& rect, const ImageSize& wanted);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::reader
