#include "trainer/reader/images/image_pixels.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::reader {

StatusOr<ImageSize> ToImageSize(int64_t width, int64_t height) {
  TD_REQUIRE(width >= 0 && height >= 0);
  if (std::max(width, height) > kImageSideMax) {
    return DataLoss("the image has %dx%d pixels, but at most %d pixels on a side are supported",
                    width, height, kImageSideMax);
  }
  if (width * height > kImagePixelsMax) {
    return DataLoss("the image has %dx%d pixels, but at most 2^27 pixels are supported", width,
                    height);
  }
  return ImageSize{static_cast<int>(width), static_cast<int>(height)};
}

DecodedPart PartOf(const ImageSize& image, const ImageRect& rect, const ImageSize& wanted) {
  TD_REQUIRE(rect.x >= 0 && rect.y >= 0 && rect.width > 0 && rect.height > 0);
  TD_REQUIRE(rect.width <= image.width - rect.x && rect.height <= image.height - rect.y);
  DecodedPart part{.scale = 8};
  while (part.scale > 1 &&
         (rect.width / part.scale < wanted.width || rect.height / part.scale < wanted.height)) {
    part.scale /= 2;
  }
  const int width = (image.width + part.scale - 1) / part.scale;
  const int height = (image.height + part.scale - 1) / part.scale;
  part.first_row = std::clamp(rect.y / part.scale - 1, 0, height - 1);
  part.rows = std::min((rect.y + rect.height - 1) / part.scale + 2, height) - part.first_row;
  part.first_column = std::clamp(rect.x / part.scale - 1, 0, width - 1);
  part.columns = std::min((rect.x + rect.width - 1) / part.scale + 2, width) - part.first_column;
  return part;
}

ImagePixels PixelsOf(const uint8_t* rgb, const DecodedPart& part, const ImageRect& rect) {
  const double scale = part.scale;
  return {rgb,
          part.columns,
          part.rows,
          rect.x / scale - part.first_column,
          rect.y / scale - part.first_row,
          rect.width / scale,
          rect.height / scale};
}

}  // namespace tandem::reader
