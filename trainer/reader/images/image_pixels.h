// Sizes, rectangles and decoded pixels of images: what the decoders of JPEG and PNG share.
#pragma once

#include <cstdint>

#include "common/base/status.h"

namespace tandem::reader {

// Maximum number of pixels of an image, and of one side (JPEG_MAX_DIMENSION of libjpeg). The header
// of a small file may declare any size.
inline constexpr int64_t kImagePixelsMax = int64_t{1} << 27;
inline constexpr int64_t kImageSideMax = 65500;

struct ImageSize {
  int width = 0, height = 0;
};

// Returns the size of an image. DATA_LOSS: it is larger than the limits above.
StatusOr<ImageSize> ToImageSize(int64_t width, int64_t height);

struct ImageRect {
  int x = 0, y = 0, width = 0, height = 0;
};

// The RGB pixels of a part of an image, and the requested rectangle, in coordinates of this part.
struct ImagePixels {
  const uint8_t* rgb = nullptr;  // rows of width * 3 bytes, without gaps
  int width = 0, height = 0;
  double x = 0, y = 0, rect_width = 0, rect_height = 0;
};

// The part of an image that a decoder returns, in pixels of the image that is scaled down.
struct DecodedPart {
  int scale = 1;  // the image is scaled down by this factor: 1, 2, 4 or 8
  int first_column = 0, first_row = 0, columns = 0, rows = 0;
};

// Returns the part for the rectangle `rect` of an image of size `image`, with a margin of one
// pixel, which interpolations read. The factor is the largest with which the rectangle is at least
// as large as `wanted`. REQUIRES: the rectangle is not empty and lies in the image.
DecodedPart PartOf(const ImageSize& image, const ImageRect& rect, const ImageSize& wanted);

// Returns `pixels` of `part` with the rectangle in coordinates of the part.
ImagePixels PixelsOf(const uint8_t* rgb, const DecodedPart& part, const ImageRect& rect);

}  // namespace tandem::reader
