// Fuzz target: PNG images. The decoder reads the header, a downscaled part of the image, and the
// whole image.
#include "trainer/reader/images/png.h"

#include <zlib.h>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/png_test_util.h"

namespace tandem {
namespace {

// Maximum number of pixels of an image that the target decodes. The target only opens larger
// images, because a header of a few bytes may declare 2^27 pixels.
constexpr int64_t kPixelsMax = 1 << 18;

// Returns `file` with the right checksum after each chunk. Without them the decoder would refuse
// nearly all mutated files at their first chunk.
std::string WithChecksums(std::string_view input) {
  std::string file(input);
  for (size_t at = 8; at + 12 <= file.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(file[at + i]);
    if (length > file.size() - at - 12) break;
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(file.data() + at + 4),
                           static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i) {
      file[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    }
    at += length + 12;
  }
  return file;
}

bool Decodes(std::string_view input) {
  // Static, because the decoder reuses its memory for each image.
  static reader::PngDecoder decoder;
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

bool Accepts(std::string_view input) {
  const bool accepted = Decodes(input);
  return Decodes(WithChecksums(input)) && accepted;
}

}  // namespace

FuzzTarget MakeFuzzTarget() {
  std::vector<uint8_t> pixels(31 * 27 * 4);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7);
  const PngForm palette = {.type = PNG_COLOR_TYPE_PALETTE,
                           .bits = 4,
                           .interlaced = true,
                           .palette = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}},
                           .opacities = {0, 128}};
  return {{EncodePng(pixels, 31, 27, 3), EncodePng(pixels, 31, 27, 4, true),
           EncodePng(pixels, 17, 9, 1), EncodePng(pixels, 17, 9, 2),
           EncodePng({"\x01\x02\x10", "\x21\x02\x20"}, 5, palette),
           EncodePng({std::string(12, '\x7b')}, 2, {.bits = 16})},
          {"IDAT", "IEND", "PLTE", "tRNS", "IHDR", "iCCP", "zTXt", "\x10", "\x06"},
          Accepts};
}

}  // namespace tandem
