#include "trainer/reader/images/image_decoder.h"

namespace tandem::reader {

StatusOr<ImageSize> ImageDecoder::Open(std::string_view file) {
  is_png_ = IsPng(file);
  if (is_png_) return png_.Open(file);
  if (file.starts_with("\xff\xd8")) return jpeg_.Open(file);
  return DataLoss("the file is neither a JPEG nor a PNG image");
}

StatusOr<ImagePixels> ImageDecoder::Decode(const ImageRect& rect, const ImageSize& wanted) {
  return is_png_ ? png_.Decode(rect, wanted) : jpeg_.Decode(rect, wanted);
}

}  // namespace tandem::reader
