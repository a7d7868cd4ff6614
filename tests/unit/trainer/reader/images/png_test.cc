#include "trainer/reader/images/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>

#include "tests/support/jpeg_test_util.h"
#include "tests/support/png_test_util.h"
#include "trainer/reader/images/image_decoder.h"

namespace tandem::reader {
namespace {

using testing::HasSubstr;

using Bytes = std::vector<int>;

// Decodes the whole image and returns its values.
Bytes Decoded(const std::string& file) {
  PngDecoder decoder;
  const auto size = decoder.Open(file);
  EXPECT_TRUE(size.ok()) << size.status();
  if (!size.ok()) return {};
  const auto image = decoder.Decode({0, 0, size->width, size->height}, *size);
  EXPECT_TRUE(image.ok()) << image.status();
  if (!image.ok()) return {};
  EXPECT_EQ(image->width, size->width);
  EXPECT_EQ(image->height, size->height);
  return {image->rgb, image->rgb + static_cast<ptrdiff_t>(image->width) * image->height * 3};
}

std::string Row(std::initializer_list<int> bytes) {
  std::string row;
  for (const int byte : bytes) row += static_cast<char>(byte);
  return row;
}

// Each kind of pixels becomes RGB as Pillow's convert("RGB") makes it.
TEST(PngDecoder, EveryKindOfPixelsBecomesRgb) {
  EXPECT_EQ(Decoded(EncodePng({Row({1, 2, 3, 250, 251, 252})}, 2, {})),
            (Bytes{1, 2, 3, 250, 251, 252}));
  EXPECT_EQ(Decoded(EncodePng({Row({7, 200})}, 2, {.type = PNG_COLOR_TYPE_GRAY})),
            (Bytes{7, 7, 7, 200, 200, 200}));
  // Grey values of 1, 2 and 4 bits spread over 0 to 255.
  EXPECT_EQ(Decoded(EncodePng({Row({0b01000000})}, 2, {.type = PNG_COLOR_TYPE_GRAY, .bits = 1})),
            (Bytes{0, 0, 0, 255, 255, 255}));
  EXPECT_EQ(Decoded(EncodePng({Row({0b01100000})}, 2, {.type = PNG_COLOR_TYPE_GRAY, .bits = 2})),
            (Bytes{85, 85, 85, 170, 170, 170}));
  EXPECT_EQ(Decoded(EncodePng({Row({0x1e})}, 2, {.type = PNG_COLOR_TYPE_GRAY, .bits = 4})),
            (Bytes{17, 17, 17, 238, 238, 238}));
  // The upper 8 of 16 bits count.
  EXPECT_EQ(Decoded(EncodePng({Row({0x12, 0xff, 0xfe, 0x00})}, 2,
                              {.type = PNG_COLOR_TYPE_GRAY, .bits = 16})),
            (Bytes{0x12, 0x12, 0x12, 0xfe, 0xfe, 0xfe}));
  EXPECT_EQ(Decoded(EncodePng({Row({1, 255, 2, 255, 3, 255})}, 1, {.bits = 16})), (Bytes{1, 2, 3}));
}

TEST(PngDecoder, AlphaIsDropped) {
  EXPECT_EQ(Decoded(EncodePng({Row({10, 20, 30, 0, 40, 50, 60, 128})}, 2,
                              {.type = PNG_COLOR_TYPE_RGB_ALPHA})),
            (Bytes{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(Decoded(EncodePng({Row({9, 0, 8, 255})}, 2, {.type = PNG_COLOR_TYPE_GRAY_ALPHA})),
            (Bytes{9, 9, 9, 8, 8, 8}));
  EXPECT_EQ(Decoded(EncodePng({Row({9, 1, 0, 0, 8, 1, 255, 255})}, 2,
                              {.type = PNG_COLOR_TYPE_GRAY_ALPHA, .bits = 16})),
            (Bytes{9, 9, 9, 8, 8, 8}));
}

TEST(PngDecoder, PalettesWithTransparentColours) {
  const std::vector<png_color> palette = {{255, 0, 0}, {0, 255, 0}, {1, 2, 3}};
  for (const std::vector<png_byte>& opacities : {std::vector<png_byte>{}, {0, 128}}) {
    const PngForm form = {.type = PNG_COLOR_TYPE_PALETTE,
                          .bits = 2,
                          .interlaced = false,
                          .palette = palette,
                          .opacities = opacities};
    EXPECT_EQ(Decoded(EncodePng({Row({0b00011000})}, 3, form)),
              (Bytes{255, 0, 0, 0, 255, 0, 1, 2, 3}));
  }
}

std::vector<uint8_t> Picture(int width, int height) {
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7 + i);
  return pixels;
}

// The parts of an image are those of a plain loop over its pixels, for every scale.
TEST(PngDecoder, PartsAreMeansOfTheWhole) {
  constexpr int kWidth = 83, kHeight = 47;
  const std::vector<uint8_t> pixels = Picture(kWidth, kHeight);
  PngDecoder decoder;
  for (const bool interlaced : {false, true}) {
    const std::string file = EncodePng(pixels, kWidth, kHeight, 3, interlaced);
    for (const ImageRect rect : {ImageRect{0, 0, 83, 47}, ImageRect{17, 9, 40, 30},
                                 ImageRect{80, 40, 3, 7}, ImageRect{5, 46, 1, 1}}) {
      for (const int wanted : {100, 20, 10, 3}) {
        const auto size = decoder.Open(file);
        ASSERT_TRUE(size.ok()) << size.status();
        const auto part = decoder.Decode(rect, {wanted, wanted});
        ASSERT_TRUE(part.ok()) << part.status();
        const int scale = static_cast<int>(std::lround(rect.width / part->rect_width));
        ASSERT_TRUE(scale == 1 || (rect.width / scale >= wanted && rect.height / scale >= wanted));
        const int x0 = rect.x / scale - static_cast<int>(part->x);
        const int y0 = rect.y / scale - static_cast<int>(part->y);
        ASSERT_GE(part->width * scale, std::min(rect.width + scale, kWidth - rect.x));
        for (int y = 0; y < part->height; ++y) {
          for (int x = 0; x < part->width; ++x) {
            int sum[3] = {}, count = 0;
            for (int v = (y0 + y) * scale; v < std::min((y0 + y + 1) * scale, kHeight); ++v) {
              for (int u = (x0 + x) * scale; u < std::min((x0 + x + 1) * scale, kWidth); ++u) {
                ++count;
                for (size_t c = 0; c < 3; ++c) {
                  sum[c] += pixels[static_cast<size_t>(v * kWidth + u) * 3 + c];
                }
              }
            }
            for (int c = 0; c < 3; ++c) {
              ASSERT_EQ(part->rgb[(y * part->width + x) * 3 + c], (sum[c] + count / 2) / count)
                  << interlaced << " scale " << scale << " at " << x << "," << y;
            }
          }
        }
      }
    }
  }
}

TEST(PngDecoder, DamagedFilesAreRefused) {
  PngDecoder decoder;
  const auto decode = [&decoder](const std::string& file) {
    const auto size = decoder.Open(file);
    if (!size.ok()) return size.status();
    return decoder.Decode({0, 0, size->width, size->height}, *size).status();
  };
  for (const bool interlaced : {false, true}) {
    const std::string file = EncodePng(Picture(60, 40), 60, 40, 3, interlaced);
    ASSERT_EQ(decode(file), OkStatus());
    for (size_t bytes = 0; bytes < file.size() - 60; bytes += 13) {
      const Status status = decode(file.substr(0, bytes));
      EXPECT_EQ(status.code(), StatusCode::kDataLoss) << bytes;
      EXPECT_THAT(std::string(status.message()), HasSubstr("PNG image")) << bytes;
    }
    std::string flipped = file;
    flipped[file.size() / 2] = static_cast<char>(flipped[file.size() / 2] ^ 1);
    EXPECT_EQ(decode(flipped).code(), StatusCode::kDataLoss);
    EXPECT_EQ(decode(file), OkStatus()) << "continues after a damaged file";
  }
  EXPECT_THAT(std::string(decode("GIF89a").message()), HasSubstr("is not a PNG image"));
}

// A header may declare any size. Open() refuses the image before it needs memory.
TEST(PngDecoder, ImagesThatAreTooLarge) {
  std::string file = EncodePng(Picture(4, 4), 4, 4, 3);
  const auto resized = [&file](int width, int height) {
    std::string header = "IHDR";
    for (const int side : {width, height}) {
      for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(side >> shift);
    }
    header += file.substr(24, 5);
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(header.data()), static_cast<uInt>(header.size())));
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(crc >> shift);
    return file.substr(0, 12) + header + file.substr(33);
  };
  PngDecoder decoder;
  EXPECT_EQ(resized(4, 4), file);
  EXPECT_THAT(std::string(decoder.Open(resized(1 << 14, (1 << 13) + 1)).status().message()),
              HasSubstr("at most 2^27 pixels"));
  // A row of 2^27 pixels would need 400 MB.
  for (const auto& [width, height] : {std::pair{1 << 27, 1}, {1, 1 << 27}, {65501, 1}}) {
    EXPECT_THAT(
        std::string(decoder.Open(resized(width, height)).status().message()),
        HasSubstr(absl::StrFormat("%dx%d pixels, but at most 65500 pixels on a side are supported",
                                  width, height)));
  }
  EXPECT_FALSE(decoder.Open(resized(0x7fffffff, 0x7fffffff)).ok());
  EXPECT_TRUE(decoder.Open(resized(65500, 1)).ok());
  EXPECT_FALSE(decoder.Open(resized(0, 4)).ok());
  EXPECT_TRUE(decoder.Open(resized(1 << 14, 1 << 13)).ok());
}

TEST(ImageDecoder, FirstBytesDecide) {
  ImageDecoder decoder;
  const auto first = [&decoder](const std::string& file) {
    EXPECT_TRUE(decoder.Open(file).ok());
    const auto image = decoder.Decode({0, 0, 8, 8}, {8, 8});
    EXPECT_TRUE(image.ok()) << image.status();
    return image.ok() ? image->rgb[0] : -1;
  };
  const std::string png = EncodePng(std::vector<uint8_t>(8 * 8 * 3, 200), 8, 8, 3);
  const std::string jpeg = EncodeJpeg(std::vector<uint8_t>(8 * 8 * 3, 40), 8, 8, 3, 100);
  EXPECT_EQ(first(png), 200);
  EXPECT_EQ(first(jpeg), 40);
  EXPECT_EQ(first(png), 200);
  EXPECT_THAT(std::string(decoder.Open("GIF89a").status().message()),
              HasSubstr("neither a JPEG nor a PNG image"));
}

}  // namespace
}  // namespace tandem::reader
