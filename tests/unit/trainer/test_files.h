// Helpers for directories and files in the tests of the trainer.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "tests/support/temp_dir.h"

namespace tandem::trainer {

template <typename Bytes>
void WriteFile(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  CHECK(out.good()) << path;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<uint8_t> Idx(const std::vector<uint32_t>& dims, std::vector<uint8_t> data) {
  std::vector<uint8_t> out = {0, 0, 8, static_cast<uint8_t>(dims.size())};
  for (uint32_t d : dims) {
    for (int shift : {24, 16, 8, 0}) out.push_back(static_cast<uint8_t>(d >> shift));
  }
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

inline std::vector<uint8_t> Gzip(const std::vector<uint8_t>& bytes) {
  z_stream z{};
  CHECK_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::vector<uint8_t> out(deflateBound(&z, bytes.size()) + 64);
  z.next_in = const_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// Writes the two files of one part of a dataset (training or test): `count` images of 2x3. Pixel p
// of image i is (7 * i + p) % 256, and the label of the image is i % 10.
inline void WriteTinyMnist(const std::string& dir, const std::string& stem, uint32_t count,
                           bool gz) {
  std::vector<uint8_t> pixels, labels;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t p = 0; p < 6; ++p) pixels.push_back(static_cast<uint8_t>(7 * i + p));
    labels.push_back(static_cast<uint8_t>(i % 10));
  }
  const auto images = Idx({count, 2, 3}, pixels), label_file = Idx({count}, labels);
  const std::string end = gz ? ".gz" : "";
  WriteFile(dir + "/" + stem + "-images-idx3-ubyte" + end, gz ? Gzip(images) : images);
  WriteFile(dir + "/" + stem + "-labels-idx1-ubyte" + end, gz ? Gzip(label_file) : label_file);
}

}  // namespace tandem::trainer
