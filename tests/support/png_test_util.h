// Makes PNG files for tests.
#pragma once

#include <png.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/check.h"

namespace tandem {

// The kind of pixels of a PNG file.
struct PngForm {
  int type = PNG_COLOR_TYPE_RGB;
  int bits = 8;  // bits of a value
  bool interlaced = false;
  std::vector<png_color> palette;   // PNG_COLOR_TYPE_PALETTE: the colours
  std::vector<png_byte> opacities;  // PNG_COLOR_TYPE_PALETTE: opacity of the first colours
};

// Encodes `rows`, one string of packed bytes for each row, as a PNG file.
inline std::string EncodePng(const std::vector<std::string>& rows, int width, const PngForm& form) {
  std::string file;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp writer, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(writer))
        ->append(reinterpret_cast<const char*>(bytes), count);
  };
  png_set_write_fn(png, &file, write, nullptr);
  png_set_IHDR(png, info, static_cast<uint32_t>(width), static_cast<uint32_t>(rows.size()),
               form.bits, form.type, form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!form.palette.empty()) {
    png_set_PLTE(png, info, form.palette.data(), static_cast<int>(form.palette.size()));
  }
  if (!form.opacities.empty()) {
    png_set_tRNS(png, info, form.opacities.data(), static_cast<int>(form.opacities.size()),
                 nullptr);
  }
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (const std::string& row : rows) {
    CHECK_EQ(row.size(), png_get_rowbytes(png, info));
    pointers.push_back(reinterpret_cast<png_bytep>(const_cast<char*>(row.data())));
  }
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return file;
}

// Encodes `pixels` [height, width, channels] of 8 bits: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
inline std::string EncodePng(const std::vector<uint8_t>& pixels, int width, int height,
                             int channels, bool interlaced = false) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  const size_t bytes = static_cast<size_t>(width) * static_cast<size_t>(channels);
  std::vector<std::string> rows;
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    rows.emplace_back(reinterpret_cast<const char*>(pixels.data()) + y * bytes, bytes);
  }
  return EncodePng(rows, width, {.type = kTypes[channels - 1], .interlaced = interlaced});
}

}  // namespace tandem
