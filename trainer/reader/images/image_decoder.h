// Decodes JPEG and PNG images. The first bytes of a file decide, not its name.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "trainer/reader/images/image_pixels.h"
#include "trainer/reader/images/jpeg.h"
#include "trainer/reader/images/png.h"

namespace tandem::reader {

// Decodes one image after another, and reuses its memory. Not thread-safe.
class ImageDecoder {
 public:
  // Reads the header of an image and returns the image's size. `file`: content of the file; must
  // stay valid until the next Open(). DATA_LOSS: `file` is neither a JPEG nor a PNG image, or has
  // too many pixels.
  StatusOr<ImageSize> Open(std::string_view file);

  // Decodes as JpegDecoder::Decode() or PngDecoder::Decode().
  StatusOr<ImagePixels> Decode(const ImageRect& rect, const ImageSize& wanted);

 private:
  bool is_png_ = false;
  JpegDecoder jpeg_;
  PngDecoder png_;
};

}  // namespace tandem::reader
