// Makes JPEG files for tests and benchmarks.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>

namespace tandem {

// Encodes `pixels` [height, width, channels] as a JPEG file whose chroma has half the resolution.
inline std::string EncodeJpeg(const std::vector<uint8_t>& pixels, int width, int height,
                              int channels, int quality, bool progressive = false) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &out, &bytes);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  const size_t row_bytes = static_cast<size_t>(width) * static_cast<size_t>(channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(pixels.data() + info.next_scanline * row_bytes);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<char*>(out), bytes);
  std::free(out);
  return file;
}

// Returns the pixels [height, width, 3] of a red image (label 1) or a blue one (label 0), with
// noise that depends on `number`.
inline std::vector<uint8_t> RedOrBluePixels(int number, int label, int width, int height) {
  std::vector<uint8_t> pixels;
  for (int p = 0; p < width * height; ++p) {
    const auto noise = static_cast<uint8_t>(p * (number + 3) % 90);
    pixels.insert(pixels.end(),
                  {uint8_t(noise + 100 * label), noise, uint8_t(noise + 100 * (1 - label))});
  }
  return pixels;
}

inline std::string RedOrBlueJpeg(int number, int label, int width, int height) {
  return EncodeJpeg(RedOrBluePixels(number, label, width, height), width, height, 3, 90);
}

}  // namespace tandem
