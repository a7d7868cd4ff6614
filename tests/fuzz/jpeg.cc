// Fuzz target: JPEG images. The decoder reads the header, a downscaled part of the image, and the
// whole image.
#include "trainer/reader/images/jpeg.h"
#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/jpeg_test_util.h"

namespace tandem {
namespace {

// Maximum number of pixels of an image that the target decodes. The target only opens larger
// images, because a header of a few bytes may declare 2^27 pixels.
constexpr int64_t kPixelsMax = 1 << 18;

bool Accepts(std::string_view input) {
  // Static, because the decoder reuses its memory for each image.
  static reader::JpegDecoder decoder;
  bool accepted = false;
  for (const int part : {3, 1}) {
    const auto size = decoder.Open(input);
    CHECK(size.ok() || !size.status().message().empty());
    if (!size.ok() || int64_t{size->width} * size->height > kPixelsMax) return false;
    const int width = (size->width + part - 1) / part, height = (size->height + part - 1) / part;
    const reader::ImageRect rect = {size->width - width, size->height - height, width, height};
    const auto image = decoder.Decode(rect, {8, 8});
    CHECK(image.ok() || !image.status().message().empty());
    accepted = image.ok();
    if (!accepted) continue;
    volatile uint8_t sum = 0;  // reads every byte, so that sanitizers detect invalid memory
    for (int at = 0; at < image->width * image->height * 3; ++at) {
      sum = static_cast<uint8_t>(sum + image->rgb[at]);
    }
  }
  return accepted;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  std::vector<uint8_t> pixels(61 * 47 * 4);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7);
  return {{EncodeJpeg(pixels, 61, 47, 3, 80), EncodeJpeg(pixels, 61, 47, 3, 80, true),
           EncodeJpeg(pixels, 17, 9, 1, 50), EncodeJpeg(pixels, 17, 9, 4, 50)},
          {"\xff\xd8", "\xff\xd9", "\xff\xda", "\xff\xc4", "\xff\xdb", "\xff\xc2", "\xff\xdd"},
          Accepts};
}

}  // namespace tandem
