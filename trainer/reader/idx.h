// The idx format of the MNIST files: a big-endian magic number (0, 0, element type, rank), one
// 32-bit number per dimension, and the elements. Source: Y. LeCun, "The MNIST database", file
// formats. Only elements of type 0x08 (unsigned bytes) are supported, because MNIST and similar
// datasets have no others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

struct IdxArray {
  std::vector<uint32_t> dims;  // `rank` dimensions of the array, the outermost first
  std::vector<uint8_t> data;   // elements of the array; their number is the product of `dims`
};

// Largest accepted number of elements, 4 GiB. A header with a larger number is treated as damaged.
inline constexpr uint64_t kIdxBytesMax = uint64_t{1} << 32;

// Parses the bytes of an idx file, plain or gzip. The first bytes determine whether `file` is gzip
// data. Every error message begins with `name`. DATA_LOSS: `file` is not one whole array of `rank`
// dimensions (wrong magic, truncation, damaged gzip data, bytes after the end); the message has
// file and offset. The actual content of the file bounds the memory use, not the sizes in its
// header.
StatusOr<IdxArray> ParseIdx(std::span<const uint8_t> file, const std::string& name, int rank);

// Reads and parses the file. NOT_FOUND: the file does not exist. PERMISSION_DENIED: the file cannot
// be opened. DATA_LOSS: the file is damaged. Each message names `path`.
StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

}  // namespace tandem::reader
