// Decodes PNG images with libpng: all kinds of pixels, also interlaced.
#pragma once

#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "trainer/reader/images/image_pixels.h"

namespace tandem::reader {

// Returns whether the file begins as a PNG file does.
bool IsPng(std::string_view file);

// Decodes one image after another, and reuses its memory. Every image becomes RGB of 8 bits:
// palettes and grey values are expanded; of 16 bits the upper 8 are used; alpha and transparent
// colours are dropped, so a pixel has its colour whatever its transparency. Gamma and colour
// profiles have no effect. These are the rules of Pillow's convert("RGB"), except that Pillow
// limits grey values of 16 bits to 255 instead. Not thread-safe.
class PngDecoder {
 public:
  PngDecoder();
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // Reads the header of an image and returns the image's size. `file`: content of the file; must
  // stay valid until the next Open(). DATA_LOSS: `file` is not a PNG image, or is larger
  // than the limits of ToImageSize().
  StatusOr<ImageSize> Open(std::string_view file);

  // Decodes the part of PartOf(). A pixel of an image that is scaled down is the mean of its
  // pixels. The pixels are valid until the next call. DATA_LOSS: the file is damaged in the rows up
  // to the end of the part, or anywhere if the image is interlaced. REQUIRES: Open() was called
  // since the previous Decode(); the rectangle is not empty and lies in the image.
  StatusOr<ImagePixels> Decode(const ImageRect& rect, const ImageSize& wanted);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::reader
