// The idx format of the MNIST files: a big-endian magic (0, 0, element type, rank), one 32-bit
// dimension per rank, then the elements. Source: Y. LeCun, "The MNIST database", file formats. Only
// unsigned bytes (type 0x08) are supported, the only type in MNIST and similar datasets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

struct IdxArray {
  std::vector<uint32_t> dims;  // outermost first; `rank` of them
  std::vector<uint8_t> data;   // product of dims bytes
};

// Largest accepted number of elements, 4 GiB; a header with more counts as damaged.
inline constexpr uint64_t kIdxBytesMax = uint64_t{1} << 32;

// Parses the bytes of an idx file, plain or gzip. The first bytes decide, not the name. `name`
// begins every message. DATA_LOSS: `file` is not one whole array of `rank` dimensions (wrong magic,
// truncation, damaged gzip data, bytes after the end); the message has file and offset. Memory use
// is bounded by the file's real content, not by its header.
StatusOr<IdxArray> ParseIdx(std::span<const uint8_t> file, const std::string& name, int rank);

// Reads and parses the file. NOT_FOUND, PERMISSION_DENIED, DATA_LOSS; the message names `path`.
StatusOr<IdxArray> ReadIdx(const std::string& path, int rank);

}  // namespace tandem::reader
